//===- KernelRows.h - Kernels of some rows of buffers -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_KERNELROWS_H
#define POPLAR_LIB_CONVERSION_MEMORY_KERNELROWS_H

#include "Poplar/Dialect/Exec/Exec.h"

namespace poplar {

/// Whether a kernel computes each of a sample's `tokens` tokens by itself, of
/// the same token of what it reads: then it can run for some of them.
bool isTokenByToken(exec::KernelOp kernel, int64_t tokens);

/// Whether it adds values of a sample's tokens to what there is: then, too.
bool addsTokens(exec::KernelOp kernel, int64_t tokens);

/// A kernel for tokens [first, end) of such a kernel's `tokens`: the module's,
/// if it is there. Buffers whose types differ from the kernel's are exec.rows.
exec::KernelOp getKernelOfRows(exec::KernelOp kernel, int64_t tokens,
                               int64_t first, int64_t end);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_KERNELROWS_H

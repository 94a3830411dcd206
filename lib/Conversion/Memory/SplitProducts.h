//===- SplitProducts.h - Products beside exchanges --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_SPLITPRODUCTS_H
#define POPLAR_LIB_CONVERSION_MEMORY_SPLITPRODUCTS_H

#include "Poplar/Dialect/Exec/Exec.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {

/// Cuts products by the ranks whose tokens their rows are: those of what is
/// gathered, which compute a rank's rows when they have arrived, and those of
/// what is scattered, which give a rank its rows when they are computed. A
/// product that cannot be cut waits for all, or computes all first. Rows of
/// buffers begin at multiples of `alignment` bytes. Kernels that make of what
/// is scattered what is gathered next, chained to it, run piece by piece as
/// well; they are added to `cut`.
void splitProducts(mlir::ModuleOp module, int64_t alignment,
                   llvm::SetVector<exec::KernelOp> &cut);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_SPLITPRODUCTS_H

//===- WireSums.h - How sums of columns are cut into blocks -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_GPU_WIRESUMS_H
#define POPLAR_RUNTIME_KERNELS_GPU_WIRESUMS_H

/// Sums of a block of poplar_wire_partial_sums: those of the lanes of a warp.
#define POPLAR_WIRE_SUMS 32

#endif // POPLAR_RUNTIME_KERNELS_GPU_WIRESUMS_H

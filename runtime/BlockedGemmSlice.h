//===- BlockedGemmSlice.h - One thread's part of a product ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_BLOCKEDGEMMSLICE_H
#define POPLAR_RUNTIME_BLOCKEDGEMMSLICE_H

#include "Poplar/Runtime/ABI.h"

#include <utility>

namespace poplar::runtime {

/// Rows and columns of C, [first, second) of each.
struct GemmSlice {
  /// Sizes of the blocks that are packed: along n, m and k. Blocks begin at
  /// multiples of these whatever the slice is.
  static constexpr int64_t BlockColumns = 192, BlockRows = 512, Depth = 256;
  /// Slices begin at multiples of it. It is a multiple of the largest tile of
  /// registers in both directions, so that an element of C is in a tile of the
  /// same shape, and therefore the same sum, in every slice.
  static constexpr int64_t Grain = 48;
  /// Elements of scratch that a slice needs.
  static constexpr int64_t PackedElements = (BlockColumns + BlockRows) * Depth;

  const PoplarGemm *Gemm;
  const float *A, *B, *Bias; // the bias may be null
  float *C, *Packed = nullptr;
  std::pair<int64_t, int64_t> Rows = {}, Columns = {};
};

/// Only for CPUs that have the instructions.
void multiplyAVX2(const GemmSlice &Slice);
void multiplySSE41(const GemmSlice &Slice);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BLOCKEDGEMMSLICE_H

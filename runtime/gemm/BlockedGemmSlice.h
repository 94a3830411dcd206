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

#include <algorithm>
#include <utility>

namespace poplar::runtime {

/// Rows and columns of C, [first, second) of each.
struct GemmSlice {
  /// Sizes of the blocks of B that are packed, along n and k, in the second
  /// level of caches. Blocks begin at multiples of these whatever the slice is.
  static constexpr int64_t BlockColumns = 192, Depth = 256;
  /// Rows of A that are packed, and how deep: deeper than a block of B, so that
  /// C is not read from memory again for every block.
  static constexpr int64_t BlockRows = 512, PackedDepth = 4 * Depth;
  /// Rows of C, in a cache with a block of B, that are added to at a time.
  static constexpr int64_t TileRows = 48;
  /// Slices begin at multiples of it. It is a multiple of the largest tile of
  /// registers in both directions, so that an element of C is in a tile of the
  /// same shape, and therefore the same sum, in every slice.
  static constexpr int64_t Grain = 48;
  /// Elements of the scratch of a slice of `Gemm`, at most: its block of B,
  /// then its rows of A. Both are read in whole cache lines.
  static int64_t countPackedB(const PoplarGemm &Gemm) {
    return roundUp(std::min(BlockColumns, Gemm.n) * std::min(Depth, Gemm.k));
  }
  static int64_t countPacked(const PoplarGemm &Gemm) {
    return countPackedB(Gemm) +
           roundUp(std::min(BlockRows, Gemm.m) * std::min(PackedDepth, Gemm.k));
  }

  const PoplarGemm *Gemm;
  const float *A, *B, *Bias; // the bias may be null
  float *C, *Packed = nullptr;
  std::pair<int64_t, int64_t> Rows = {}, Columns = {};

private:
  static int64_t roundUp(int64_t Elements) {
    constexpr int64_t Line = POPLAR_ALIGNMENT / sizeof(float);
    return (Elements + Line - 1) / Line * Line;
  }
};

/// Only for CPUs that have the instructions.
void multiplyAVX2(const GemmSlice &Slice);
void multiplySSE41(const GemmSlice &Slice);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BLOCKEDGEMMSLICE_H

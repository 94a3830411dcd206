//===- Dots.h - Blocks of dot products --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_DOTS_H
#define POPLAR_RUNTIME_KERNELS_DOTS_H

#include "Vector.h"

namespace poplar {

/// An array of f32 or bf16.
struct Elements {
  const void *array;
  bool isBF16;

  POPLAR_ALWAYS_INLINE Floats loadVector(int64_t i) const {
    return loadElements(array, isBF16, i);
  }
  POPLAR_ALWAYS_INLINE float load(int64_t i) const {
    return loadElement(array, isBF16, i);
  }
};

/// The rows of a matrix, `width` elements each.
struct PlainRows {
  Elements elements;
  int64_t width;

  POPLAR_ALWAYS_INLINE Floats loadVector(int64_t row, int64_t column) const {
    return elements.loadVector(row * width + column);
  }
  POPLAR_ALWAYS_INLINE float load(int64_t row, int64_t column) const {
    return elements.load(row * width + column);
  }
};

/// results[r][c] is the product of `depth` elements of `a` from rows[r] on and
/// row first + c of `b`, which has as many. `Matrix` is as PlainRows.
template <int Rows, int Columns, typename Matrix>
POPLAR_INLINE void multiplyDots(Elements a, const int64_t (&rows)[Rows],
                                const Matrix &b, int64_t first, int64_t depth,
                                float (&results)[Rows][Columns]) {
  Floats sums[Rows][Columns];
  float rests[Rows][Columns];
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < Columns; ++c) {
      sums[r][c] = Floats{};
      rests[r][c] = 0;
    }
  int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    Floats values[Rows];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r)
      values[r] = a.loadVector(rows[r] + k);
#pragma GCC unroll 8
    for (int c = 0; c < Columns; ++c) {
      Floats factors = b.loadVector(first + c, k);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r)
        sums[r][c] += values[r] * factors;
    }
  }
  for (; k < depth; ++k)
    for (int c = 0; c < Columns; ++c)
      for (int r = 0; r < Rows; ++r)
        rests[r][c] += a.load(rows[r] + k) * b.load(first + c, k);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < Columns; ++c)
      results[r][c] = reduceSum(sums[r][c]) + rests[r][c];
}

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_DOTS_H

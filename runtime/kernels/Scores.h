//===- Scores.h - What kernels of attention share ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_KERNELS_SCORES_H
#define POPLAR_RUNTIME_KERNELS_SCORES_H

#include "Poplar/Runtime/ABI.h"
#include "Vector.h"

namespace poplar {

/// Score of a masked pair: finite, so that a row masked so far gives no NaN.
constexpr float kMasked = -1e30f;
/// Scores are in base 2.
constexpr float kLog2E = 1.44269504f;

POPLAR_INLINE int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
POPLAR_INLINE int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }

POPLAR_INLINE Ints laneNumbers() {
  return Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/// The cap in base 2.
POPLAR_INLINE float capInBase2(const PoplarAttention *desc) {
  return float(desc->cap) * kLog2E;
}

/// Caps scores: tanh(u) = 1 - 2 / (e^2u + 1), which is 1 or -1 from |u| = 10.
POPLAR_INLINE Floats capScores(const PoplarAttention *desc, Floats scores) {
  float cap = capInBase2(desc);
  Floats u = poplar::max(scores * (1.0f / cap), splat(-10.0f));
  u = select(u > splat(10.0f), splat(10.0f), u);
  Floats power = exp2(u * (2 * kLog2E));
  return (1.0f - 2.0f / (power + 1.0f)) * cap;
}

} // namespace poplar

#endif // POPLAR_RUNTIME_KERNELS_SCORES_H

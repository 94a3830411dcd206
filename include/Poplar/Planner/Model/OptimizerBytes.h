//===- OptimizerBytes.h - What an update reads and writes -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H
#define POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H

#include <cstdint>

namespace poplar {

/// Bytes that the optimizer's step reads and writes per element of f32 state:
/// zeroing the gradient and taking its norm touch it once; AdamW reads
/// gradient, master and two moments, and writes all but the gradient.
struct OptimizerBytes {
  static constexpr int64_t zero = 4, norm = 4, adamw = 28;
  static constexpr int64_t total() { return zero + norm + adamw; }
};

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H

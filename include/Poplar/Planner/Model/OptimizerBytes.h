//===- OptimizerBytes.h - What an update reads and writes -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H
#define POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H

#include <algorithm>
#include <cstdint>

namespace poplar {

/// Bytes that the optimizer's step reads and writes per element of f32 state:
/// zeroing the gradient and taking its norm touch it once; AdamW reads
/// gradient, master and two moments, and writes all but the gradient.
struct OptimizerBytes {
  static constexpr int64_t zero = 4, norm = 4, adamw = 28;
  static constexpr int64_t total() { return zero + norm + adamw; }
};

/// What moments in 8 bits save of so many elements in whole blocks of
/// POPLAR_STATE_BLOCK: two moments of 4 bytes become two of 1, and a block has
/// two scales of 4.
constexpr int64_t getSavedStateBytes(int64_t elements) {
  return 6 * elements - elements / 32;
}

/// Elements with moments in 8 bits in a shard of `shard` elements, of
/// `elements` that equal shards divide, of which `int8States` have such
/// moments. These come first in a bucket, so the last shard has the fewest:
/// this many at least.
constexpr int64_t getInt8Shard(int64_t shard, int64_t elements,
                               int64_t int8States) {
  return std::max<int64_t>(shard - (elements - int8States), 0);
}

} // namespace poplar

#endif // POPLAR_PLANNER_MODEL_OPTIMIZERBYTES_H

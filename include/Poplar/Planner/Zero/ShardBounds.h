//===- ShardBounds.h - Who owns which elements ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Cuts a flat range of elements into one shard per rank, in the order of the
// ranks: equally, or by the memory ranks have (the paper's future work), so
// that a small card need not hold as much as a large one. Shards may be empty.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_SHARDBOUNDS_H
#define POPLAR_PLANNER_ZERO_SHARDBOUNDS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct ShardBounds {
  /// Rank r owns elements [bounds[r], bounds[r + 1]).
  std::vector<int64_t> bounds;

  int64_t ranks() const { return static_cast<int64_t>(bounds.size()) - 1; }
  int64_t length(int64_t rank) const { return bounds[rank + 1] - bounds[rank]; }

  /// Empty if shards cover `elements` elements exactly once and begin at
  /// multiples of `alignment`; else names the violation.
  std::string verify(int64_t elements, int64_t alignment = 1) const;
};

/// Elements that vector loads and the wire like to see together.
constexpr int64_t shardAlignment = 16;

/// ceil(elements / ranks) each, as far as they go: the last shards may be
/// shorter, or empty. As DeepSpeed does.
ShardBounds shardEqually(int64_t elements, int64_t ranks);

/// In proportion to `shares`, whose sum is positive; shards begin at multiples
/// of `shardAlignment`.
ShardBounds shardByShares(int64_t elements, const std::vector<double> &shares);

/// Balances what is left free: ranks with the most free memory are filled
/// first, until all that own anything have as much left, within one unit, and
/// the others had no more to begin with. So the least that is left on any rank
/// that owns something is as large as can be.
///
/// `freeBytes` is by rank and may be negative; such a rank owns nothing. An
/// element takes `bytesPerElement` > 0 of it (StateFormat::sharded()). Units
/// are `alignment` elements, and one that is begun counts in full. On failure
/// sets `error` to what is missing.
std::optional<ShardBounds>
shardByFreeMemory(int64_t elements, const std::vector<int64_t> &freeBytes,
                  int64_t bytesPerElement, std::string &error,
                  int64_t alignment = shardAlignment);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_SHARDBOUNDS_H

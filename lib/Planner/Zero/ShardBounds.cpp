//===- ShardBounds.cpp - Who owns which elements --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/ShardBounds.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>

using namespace poplar;

std::string ShardBounds::verify(int64_t elements, int64_t alignment) const {
  if (bounds.size() < 2)
    return "there are no shards";
  if (bounds.front() != 0)
    return "the first shard begins at " + std::to_string(bounds.front());
  if (bounds.back() != elements)
    return "the last shard ends at " + std::to_string(bounds.back()) + " of " +
           std::to_string(elements);
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    if (bounds[i] > bounds[i + 1])
      return "shard " + std::to_string(i) + " ends before it begins";
    if (bounds[i] % alignment != 0 && bounds[i] != elements)
      return "shard " + std::to_string(i) + " begins at " +
             std::to_string(bounds[i]) + ", which is not a multiple of " +
             std::to_string(alignment);
  }
  return "";
}

ShardBounds poplar::shardEqually(int64_t elements, int64_t ranks) {
  int64_t each = (elements + ranks - 1) / ranks;
  ShardBounds shards;
  for (int64_t rank = 0; rank <= ranks; ++rank)
    shards.bounds.push_back(std::min(rank * each, elements));
  return shards;
}

ShardBounds poplar::shardByShares(int64_t elements,
                                  const std::vector<double> &shares) {
  double total = 0, sum = 0;
  for (double share : shares)
    total += share;
  assert(total > 0 && "somebody has to hold the elements");
  ShardBounds shards;
  std::vector<int64_t> &bounds = shards.bounds;
  bounds.push_back(0);
  for (size_t rank = 0; rank + 1 < shares.size(); ++rank) {
    sum += shares[rank];
    auto exact = static_cast<int64_t>(
        std::llround(sum / total * double(elements) / shardAlignment));
    bounds.push_back(
        std::clamp(exact * shardAlignment, bounds.back(), elements));
  }
  bounds.push_back(elements);
  return shards;
}

namespace {

/// Shards as whole numbers of units.
class UnitShards {
public:
  UnitShards(int64_t elements, const std::vector<int64_t> &freeBytes,
             int64_t bytesPerElement, int64_t alignment)
      : elements(elements), alignment(alignment),
        unitBytes(alignment * bytesPerElement),
        units((elements + alignment - 1) / alignment), freeBytes(freeBytes) {
    assert(bytesPerElement > 0 && alignment > 0 && elements >= 0);
  }

  /// Units that fit on `rank` if `reserve` bytes stay free.
  int64_t roomOf(size_t rank, int64_t reserve) const {
    int64_t bytes = freeBytes[rank];
    return bytes > reserve ? (bytes - reserve) / unitBytes : 0;
  }

  /// Sets `error` and returns false if the units do not fit at all.
  bool fits(std::string &error) const;

  /// `unitsOf(rank, level)` does not fall with the level. Finds the least level
  /// in (low, high] with enough units; what it has more than needed is taken
  /// from the last of the ranks that the level below gives less.
  ShardBounds
  fill(int64_t low, int64_t high,
       const std::function<int64_t(size_t rank, int64_t level)> &unitsOf) const;

private:
  int64_t elements, alignment, unitBytes, units;
  const std::vector<int64_t> &freeBytes;
};

} // namespace

bool UnitShards::fits(std::string &error) const {
  int64_t room = 0;
  for (size_t rank = 0; rank < freeBytes.size(); ++rank)
    room += roomOf(rank, 0);
  if (room >= units)
    return true;
  error = "state of " + formatMissing(units * unitBytes) +
          " does not fit: the " + std::to_string(freeBytes.size()) +
          " ranks have room for " + formatMissing(room * unitBytes) +
          " together, " + formatMissing((units - room) * unitBytes) +
          " are missing";
  return false;
}

ShardBounds
UnitShards::fill(int64_t low, int64_t high,
                 const std::function<int64_t(size_t, int64_t)> &unitsOf) const {
  auto total = [&](int64_t level) {
    int64_t sum = 0;
    for (size_t rank = 0; rank < freeBytes.size(); ++rank)
      sum += unitsOf(rank, level);
    return sum;
  };
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (total(middle) >= units ? high : low) = middle;
  }
  int64_t surplus = total(high) - units;
  std::vector<int64_t> owned(freeBytes.size());
  for (size_t rank = freeBytes.size(); rank-- > 0;) {
    owned[rank] = unitsOf(rank, high);
    int64_t less = std::min(surplus, owned[rank] - unitsOf(rank, low));
    owned[rank] -= less;
    surplus -= less;
  }
  ShardBounds shards;
  shards.bounds.push_back(0);
  int64_t end = 0;
  for (int64_t count : owned) {
    end += count;
    shards.bounds.push_back(std::min(end * alignment, elements));
  }
  return shards;
}

std::optional<ShardBounds> poplar::shardByFreeMemory(
    int64_t elements, const std::vector<int64_t> &freeBytes,
    int64_t bytesPerElement, std::string &error, int64_t alignment) {
  UnitShards shards(elements, freeBytes, bytesPerElement, alignment);
  if (!shards.fits(error))
    return std::nullopt;
  int64_t most = *std::max_element(freeBytes.begin(), freeBytes.end());
  // Level by level, less stays free.
  return shards.fill(
      -std::max<int64_t>(most, 0) - 1, 0,
      [&](size_t rank, int64_t level) { return shards.roomOf(rank, -level); });
}

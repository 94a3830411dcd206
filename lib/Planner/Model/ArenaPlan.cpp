//===- ArenaPlan.cpp - Buffers in a static arena --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Model/ArenaPlan.h"
#include <algorithm>
#include <map>
#include <numeric>

using namespace poplar;

using Buffer = ArenaProblem::Buffer;

static int64_t alignTo(int64_t bytes, int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

static bool liveTogether(const Buffer &a, const Buffer &b) {
  return a.firstStep <= b.lastStep && b.firstStep <= a.lastStep;
}

std::string ArenaProblem::check() const {
  if (alignment <= 0)
    return "alignment must be positive";
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].size < 0)
      return "buffer " + std::to_string(i) + " has a negative size";
    if (buffers[i].firstStep > buffers[i].lastStep)
      return "buffer " + std::to_string(i) + " ends before it begins";
  }
  return "";
}

int64_t ArenaProblem::largestLiveBytes() const {
  std::map<int64_t, int64_t> changes;
  for (const Buffer &buffer : buffers) {
    int64_t size = alignTo(buffer.size, alignment);
    changes[buffer.firstStep] += size;
    changes[buffer.lastStep + 1] -= size;
  }
  int64_t live = 0, largest = 0;
  for (auto [step, change] : changes)
    largest = std::max(largest, live += change);
  return largest;
}

std::string ArenaPlan::verify(const ArenaProblem &problem) const {
  const auto &buffers = problem.buffers;
  if (offsets.size() != buffers.size())
    return "plan has " + std::to_string(offsets.size()) + " offsets for " +
           std::to_string(buffers.size()) + " buffers";
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (offsets[i] < 0 || offsets[i] % problem.alignment)
      return "buffer " + std::to_string(i) + " is misaligned";
    if (offsets[i] + buffers[i].size > bytes)
      return "buffer " + std::to_string(i) + " ends beyond the arena";
    for (size_t j = 0; j < i; ++j)
      if (liveTogether(buffers[i], buffers[j]) &&
          offsets[i] < offsets[j] + buffers[j].size &&
          offsets[j] < offsets[i] + buffers[i].size)
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) +
               " overlap";
  }
  return "";
}

/// Places buffers in `order`, each at the lowest offset at which no buffer
/// placed before it is alive at the same time.
static ArenaPlan firstFit(const ArenaProblem &problem,
                          const std::vector<size_t> &order) {
  ArenaPlan plan;
  plan.offsets.assign(problem.buffers.size(), 0);
  std::vector<size_t> placed; // by offset
  for (size_t index : order) {
    const Buffer &buffer = problem.buffers[index];
    int64_t size = alignTo(buffer.size, problem.alignment), offset = 0;
    for (size_t other : placed) {
      if (!liveTogether(buffer, problem.buffers[other]))
        continue;
      if (offset + size <= plan.offsets[other])
        break;
      offset = std::max(
          offset, plan.offsets[other] +
                      alignTo(problem.buffers[other].size, problem.alignment));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, offset + size);
    auto where = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [&](int64_t o, size_t other) { return o < plan.offsets[other]; });
    placed.insert(where, index);
  }
  return plan;
}

/// Repairs of one order. Large problems get fewer: a first fit is quadratic.
static int64_t getNumRepairs(size_t numBuffers) {
  constexpr int64_t mostRepairs = 500, pairBudget = 100'000'000;
  int64_t pairs = static_cast<int64_t>(numBuffers * numBuffers) + 1;
  return std::min(mostRepairs, pairBudget / pairs);
}

ArenaPlan poplar::planArena(const ArenaProblem &problem) {
  const auto &buffers = problem.buffers;
  const int64_t bound = problem.largestLiveBytes();
  const int64_t numRepairs = getNumRepairs(buffers.size());
  auto life = [&](size_t i) {
    return buffers[i].lastStep - buffers[i].firstStep + 1;
  };
  ArenaPlan best;
  best.bytes = -1;
  std::vector<std::vector<size_t>> orders;
  auto keepBetter = [&](ArenaPlan plan) {
    if (best.bytes < 0 || plan.bytes < best.bytes)
      best = std::move(plan);
  };
  auto tryOrder = [&](auto &&before) {
    std::vector<size_t> order(buffers.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), before);
    keepBetter(firstFit(problem, order));
    orders.push_back(std::move(order));
  };
  tryOrder(
      [&](size_t a, size_t b) { return buffers[a].size > buffers[b].size; });
  tryOrder([&](size_t a, size_t b) { return life(a) > life(b); });
  tryOrder([&](size_t a, size_t b) {
    return double(buffers[a].size) * life(a) >
           double(buffers[b].size) * life(b);
  });
  tryOrder([&](size_t a, size_t b) {
    return buffers[a].firstStep < buffers[b].firstStep;
  });

  // The buffer that ends highest came too late to find a lower place: let it
  // go halfway to the front, and see.
  for (std::vector<size_t> &order : orders) {
    for (int64_t i = 0; i < numRepairs && best.bytes > bound; ++i) {
      ArenaPlan plan = firstFit(problem, order);
      auto end = [&](size_t index) {
        return plan.offsets[index] +
               alignTo(buffers[index].size, problem.alignment);
      };
      auto highest =
          std::max_element(order.begin(), order.end(),
                           [&](size_t a, size_t b) { return end(a) < end(b); });
      auto to = order.begin() + (highest - order.begin()) / 2;
      std::rotate(to, highest, highest + 1);
      keepBetter(std::move(plan));
    }
  }
  return best;
}

//===- DeviceSelection.cpp - Which devices to leave out -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/DeviceSelection.h"
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace poplar;

namespace {

class Search {
public:
  Search(const std::vector<int64_t> &available,
         const ProblemOfCounts &problemOf, const BatchPolicy &policy,
         int64_t budget)
      : available(available), problemOf(problemOf), policy(policy),
        budget(budget) {}

  std::optional<DeviceSelection> run(std::string &error);

private:
  /// Keeps the choice if it is better than what there is. False if it is not,
  /// was tried before, or the budget is spent.
  bool consider(const std::vector<int64_t> &counts);
  bool isBetter(const std::vector<int64_t> &counts, double seconds) const;
  /// True if all choices were tried.
  bool tryAll();
  void tryWholeTypes();
  void descend();

  const std::vector<int64_t> &available;
  const ProblemOfCounts &problemOf;
  const BatchPolicy &policy;
  int64_t budget;
  std::set<std::vector<int64_t>> tried;
  std::optional<DeviceSelection> best;
  std::string firstError;
};

} // namespace

/// No plan of the problem takes less: everybody works at their best rate
/// throughout, and meets as seldom as memory permits.
static double getLeastSeconds(const BatchProblem &problem) {
  double throughput = 0, capacity = 0;
  for (const auto &type : problem.types)
    if (int64_t peak = type.curve.peak(type.largestBatch)) {
      throughput +=
          static_cast<double>(type.count) * type.curve.throughput(peak);
      capacity += static_cast<double>(type.count * type.largestBatch);
    }
  auto batch = static_cast<double>(problem.globalBatch);
  double steps = problem.sharesSteps() ? std::ceil(batch / capacity) : 1;
  // Hidden altogether, or hiding all computation.
  double computing = batch / throughput + steps * problem.stepSync;
  return std::max(computing, steps * problem.stepSeconds(0)) +
         problem.iterationSync;
}

bool Search::consider(const std::vector<int64_t> &counts) {
  if (budget == 0 || !tried.insert(counts).second)
    return false;
  --budget;
  std::string error = "there is no such job";
  std::optional<BatchProblem> problem = problemOf(counts);
  // Most choices are ruled out here, some by more than rounding could do.
  if (problem && best &&
      getLeastSeconds(*problem) > best->allocation.seconds * (1 + 1e-9))
    return false;
  std::optional<Allocation> allocation;
  if (problem)
    allocation = policy.solve(*problem, error);
  if (!allocation) {
    if (tried.size() == 1)
      firstError = error;
    return false;
  }
  if (best && !isBetter(counts, allocation->seconds))
    return false;
  for (size_t i = 0; i < counts.size(); ++i) {
    allocation->types[i].dropped += available[i] - counts[i];
    problem->types[i].count = available[i];
  }
  best = {counts, std::move(*problem), std::move(*allocation), false};
  return true;
}

bool Search::isBetter(const std::vector<int64_t> &counts,
                      double seconds) const {
  // Differences by rounding are none.
  double least = best->allocation.seconds;
  if (seconds < least * (1 - 1e-12))
    return true;
  auto sum = [](const std::vector<int64_t> &counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t(0));
  };
  return seconds <= least * (1 + 1e-12) && sum(counts) > sum(best->counts);
}

bool Search::tryAll() {
  int64_t choices = 1;
  for (int64_t count : available) {
    if (choices > budget / (count + 1))
      return false;
    choices *= count + 1;
  }
  // From all devices down.
  std::vector<int64_t> counts = available;
  while (true) {
    consider(counts);
    size_t i = 0;
    while (i < counts.size() && counts[i] == 0) {
      counts[i] = available[i];
      ++i;
    }
    if (i == counts.size())
      return true;
    --counts[i];
  }
}

void Search::tryWholeTypes() {
  // With more types than this, only the changes of descend() leave some out.
  if (available.size() > 10)
    return;
  int64_t choices = int64_t(1) << available.size();
  // Where not all devices fit together, a start has to be found first.
  bool findsStart = !best;
  if (findsStart)
    budget = std::max(budget, 2 * choices);
  else if (2 * choices > budget)
    return;
  for (int64_t out = 1; out + 1 < choices; ++out) {
    std::vector<int64_t> counts = available;
    for (size_t i = 0; i < counts.size(); ++i)
      if (out >> i & 1)
        counts[i] = 0;
    if (consider(counts) && findsStart)
      return;
  }
}

void Search::descend() {
  for (bool improved = best.has_value(); improved;) {
    improved = false;
    for (size_t i = 0; i < available.size(); ++i)
      for (int64_t change = available[i]; change > 0; change /= 2)
        for (int64_t sign : {-1, 1}) {
          std::vector<int64_t> counts = best->counts;
          counts[i] += sign * change;
          if (counts[i] >= 0 && counts[i] <= available[i])
            improved |= consider(counts);
        }
  }
}

std::optional<DeviceSelection> Search::run(std::string &error) {
  bool all = tryAll();
  if (!all) {
    bool mayLeaveOut = budget > 1;
    consider(available);
    if (mayLeaveOut)
      tryWholeTypes();
    descend();
  }
  if (best)
    best->exhaustive = all;
  else
    error = firstError;
  return best;
}

std::optional<DeviceSelection> poplar::selectDevices(
    const std::vector<int64_t> &available, const ProblemOfCounts &problemOf,
    const BatchPolicy &policy, std::string &error, int64_t budget) {
  return Search(available, problemOf, policy, budget).run(error);
}

//===- PlacementSearch.cpp - Finding a placement --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Placement/PlacementSearch.h"
#include "Placement/PlacementGroups.h"
#include "Placement/PlacementStarts.h"
#include <algorithm>
#include <cmath>
#include <cstdint>

using namespace poplar;

namespace {
struct Candidate {
  PlacementGrid::Stages stages;
  double seconds;
  bool operator<(const Candidate &other) const {
    return seconds < other.seconds;
  }
};
} // namespace

/// Temperatures of an annealing, and comparisons to rearrange all stages that
/// may follow each. Where it takes more, it is done less often: with 1,000
/// devices in 8 stages twice, with 256 each time.
static constexpr int steps = 30;
static constexpr double arrangementEffort = 4e6;

/// Costs are sums in different orders; the bound is rounded down.
static constexpr double margin = 1e-9;

/// Annealings of groups, their first temperatures in turn, and comparisons in
/// each. Where that is fewer exchanges than some for each device, there are
/// none.
static constexpr int groupAnnealings = 9;
static constexpr double groupHeats[] = {0.3, 0.1, 0.03};
static constexpr double groupEffort = 3e7, leastExchanges = 8;

/// Enough for all lengths of chains of up to 16 stages.
static constexpr size_t mostLengths = 8;

/// What exchanges with optimal pipelines after each make of the best placement.
static Placement improveGroups(const PlacementProblem &problem,
                               const PlacementCosts &costs, Placement best,
                               double bound, uint64_t sequence) {
  if (problem.stages == 1 || problem.stages > largestExactPath)
    return best;
  PlacementGroups groups(costs, problem.stages);
  // A small problem has not so many placements.
  double exchanges = std::min(groupEffort / groups.estimateExchange(),
                              12 * std::pow(double(problem.devices), 3));
  if (exchanges < leastExchanges * problem.devices)
    return best;
  const std::vector<std::vector<int>> start = best.stages;
  for (int i = 0; i < groupAnnealings && best.seconds() > bound; ++i) {
    Placement placement =
        arrange(problem,
                groups.anneal(start, {/*hot=*/groupHeats[i % 3], /*cold=*/0.002,
                                      int64_t(exchanges), ++sequence}));
    if (placement.seconds() < best.seconds())
      best = std::move(placement);
  }
  return best;
}

// Every start is annealed a little; then the better half of what came of it,
// with twice the effort, until one is left. Of the temperatures, the lower
// keeps what is good in a start, the higher leaves it where it is not.
Placement poplar::searchPlacement(const PlacementProblem &problem) {
  PlacementCosts costs(problem);
  PlacementGrid grid(costs, problem.stages);
  std::vector<Candidate> candidates;
  for (PlacementGrid::Stages &stages :
       buildStarts(costs, problem.stages, problem.pipelines(), mostLengths))
    candidates.push_back({std::move(stages), 0});
  // What is proven to cost least ends the search.
  double bound = boundPlacement(problem) * (1 + margin);
  bool isProven = false;
  uint64_t sequence = 0;
  bool fresh = true;
  int arrangements = static_cast<int>(
      std::clamp(steps * arrangementEffort / grid.estimateArrangement(), 2.0,
                 double(steps)));
  // There are no more pairs of devices than that in a small problem; in a large
  // one, an exchange takes time in proportion to the pipelines.
  int64_t pairs = static_cast<int64_t>(problem.devices) * problem.devices;
  for (int64_t exchanges =
           std::min<int64_t>({4 * pairs, 1000, 64000 / problem.pipelines()});
       ; exchanges *= 2) {
    size_t keep = (candidates.size() + 1) / 2;
    bool last = candidates.size() == 1;
    std::vector<Candidate> next;
    for (Candidate &candidate : candidates) {
      for (double hot : {0.1, 0.02, 0.004}) {
        if (isProven)
          break;
        PlacementGrid::Stages stages = grid.anneal(
            candidate.stages, {hot, /*cold=*/0.0003, steps, arrangements,
                               exchanges, /*sequence=*/++sequence});
        double seconds = grid.getSeconds(stages);
        isProven = seconds <= bound;
        next.push_back({std::move(stages), seconds});
      }
      if (!fresh)
        next.push_back(std::move(candidate));
    }
    std::stable_sort(next.begin(), next.end());
    last |= isProven;
    next.resize(last ? 1 : keep);
    candidates = std::move(next);
    fresh = false;
    if (last)
      break;
  }
  return improveGroups(problem, costs, arrange(problem, candidates[0].stages),
                       bound, sequence);
}

//===- HybridReview.cpp - How good a hybrid plan is -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Pipeline/HybridCost.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace poplar;

using Lane = HybridPlan::Lane;

const char *poplar::toString(HybridLosses::Cause cause) {
  static const char *const names[] = {
      "communication", "pipeline bubble", "imbalance of stages",
      "modes that fit in memory", "idle devices"};
  return names[cause];
}

/// Samples per second of a device, in parts of a whole model: what it would do
/// alone in this mode if memory was no object.
static double getRate(const HybridProblem &problem, const HybridCosts &costs,
                      int type, int mode) {
  const HybridProblem::Mode &it = problem.types[type].modes[mode];
  return static_cast<double>(it.microBatch) /
         costs.getSeconds(type, mode, {0, problem.units()}) / it.tensorDegree;
}

static double getBestRate(const HybridProblem &problem,
                          const HybridCosts &costs, int type) {
  double best = 0;
  for (size_t mode = 0; mode < problem.types[type].modes.size(); ++mode)
    best = std::max(best, getRate(problem, costs, type, mode));
  return best;
}

double poplar::findUpperBound(const HybridProblem &problem) {
  HybridCosts costs(problem, /*communicates=*/false);
  // By type and unit: device seconds of a sample, in the fastest mode.
  std::vector<std::vector<double>> times;
  std::vector<int64_t> counts;
  for (size_t type = 0; type < problem.types.size(); ++type) {
    if (problem.types[type].count == 0 || problem.types[type].modes.empty())
      continue;
    counts.push_back(problem.types[type].count);
    times.emplace_back(problem.units(),
                       std::numeric_limits<double>::infinity());
    for (size_t mode = 0; mode < problem.types[type].modes.size(); ++mode) {
      const HybridProblem::Mode &it = problem.types[type].modes[mode];
      for (int unit = 0; unit < problem.units(); ++unit)
        times.back()[unit] = std::min(
            times.back()[unit],
            costs.getSeconds(static_cast<int>(type), static_cast<int>(mode),
                             {unit, unit + 1}) *
                it.tensorDegree / static_cast<double>(it.microBatch));
    }
  }
  double bound = times.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (const std::vector<double> &prices : times) {
    double total = std::accumulate(prices.begin(), prices.end(), 0.0), sum = 0;
    for (size_t type = 0; type < times.size(); ++type) {
      double most = 0;
      for (size_t unit = 0; unit < prices.size(); ++unit)
        if (prices[unit] > 0)
          most = std::max(most, prices[unit] / times[type][unit]);
      sum += static_cast<double>(counts[type]) * most;
    }
    bound = std::min(bound, sum / total);
  }
  return bound;
}

HybridLosses poplar::findLosses(const HybridProblem &problem,
                                const HybridPlan &plan, double seconds) {
  HybridCosts costs(problem, /*communicates=*/false);
  auto batch = static_cast<double>(problem.globalBatch);
  double silent = 0, full = 0, balanced = 0, fastest = 0;
  for (size_t i = 0; i < plan.lanes.size(); ++i) {
    const Lane &lane = plan.lanes[i];
    LaneTimes times =
        getLaneTimes(getStages(problem, plan, i, costs), plan.schedule);
    int64_t microBatches = plan.countMicroBatches(problem, i);
    silent = std::max(silent, times.getSeconds(microBatches));
    full =
        std::max(full, static_cast<double>(microBatches) * times.getPeriod());
    for (const Lane::Stage &stage : lane.stages) {
      double devices = static_cast<double>(
          lane.pipelines *
          problem.types[stage.type].modes[stage.mode].tensorDegree);
      balanced += devices * getRate(problem, costs, stage.type, stage.mode);
      fastest += devices * getBestRate(problem, costs, stage.type);
    }
  }
  HybridLosses losses;
  for (size_t type = 0; type < problem.types.size(); ++type)
    losses.capacity += static_cast<double>(problem.types[type].count) *
                       getBestRate(problem, costs, static_cast<int>(type));
  losses.lost = {batch / silent - batch / seconds,
                 batch / full - batch / silent, balanced - batch / full,
                 fastest - balanced, losses.capacity - fastest};
  return losses;
}

double HybridReview::getSumOfTypes() const {
  double sum = 0;
  for (const Alone &type : alone)
    sum += type.throughput;
  return sum;
}

std::array<double, HybridLosses::numCauses> HybridReview::splitGap() const {
  std::array<double, HybridLosses::numCauses> gap = losses.lost;
  for (const Alone &type : alone)
    for (int cause = 0; cause < HybridLosses::numCauses; ++cause)
      gap[cause] -= type.losses.lost[cause];
  return gap;
}

static double getCapacity(const HybridProblem &problem) {
  HybridCosts costs(problem, /*communicates=*/false);
  double capacity = 0;
  for (size_t type = 0; type < problem.types.size(); ++type)
    capacity += static_cast<double>(problem.types[type].count) *
                getBestRate(problem, costs, static_cast<int>(type));
  return capacity;
}

static int64_t countDevices(const HybridProblem &problem) {
  int64_t count = 0;
  for (const HybridProblem::DeviceType &type : problem.types)
    count += type.count;
  return count;
}

/// Those of one of several plans that take `seconds` together.
static HybridLosses findLossesBeside(const SolvedProblem &solved,
                                     double seconds) {
  double own = std::min(seconds, solved.plan.seconds),
         batch = static_cast<double>(solved.problem.globalBatch);
  HybridLosses losses = findLosses(solved.problem, solved.plan, own);
  losses.lost[HybridLosses::Imbalance] += batch / own - batch / seconds;
  return losses;
}

/// Those of plans on all devices of `whole`.
static HybridLosses findAllLosses(const HybridProblem &whole,
                                  const std::vector<SolvedProblem> &solved,
                                  double seconds) {
  HybridLosses losses;
  int64_t devices = 0;
  for (const SolvedProblem &each : solved) {
    HybridLosses own = solved.size() > 1
                           ? findLossesBeside(each, seconds)
                           : findLosses(each.problem, each.plan, seconds);
    for (int cause = 0; cause < HybridLosses::numCauses; ++cause)
      losses.lost[cause] += own.lost[cause];
    losses.capacity += own.capacity;
    devices += countDevices(each.problem);
  }
  double capacity = getCapacity(whole);
  // Devices that may but share units are not idle.
  bool hasAll = devices == countDevices(whole);
  losses.lost[hasAll ? HybridLosses::Modes : HybridLosses::Idle] +=
      capacity - losses.capacity;
  losses.capacity = capacity;
  return losses;
}

HybridReview::Alone poplar::reviewAlone(const HybridProblem &whole,
                                        const HybridProblem &problem,
                                        HybridChoice choice) {
  HybridReview::Alone alone;
  if (choice.search.plan) {
    alone.throughput =
        static_cast<double>(problem.globalBatch) / choice.seconds;
    alone.losses =
        findAllLosses(whole, {{problem, *choice.search.plan}}, choice.seconds);
  } else {
    // It adds nothing to U, and loses all it could do.
    alone.losses.capacity = getCapacity(whole);
    alone.losses.lost[HybridLosses::Idle] = alone.losses.capacity;
  }
  alone.search = std::move(choice.search);
  return alone;
}

HybridReview poplar::reviewHybridPlan(const HybridProblem &whole,
                                      const std::vector<SolvedProblem> &solved,
                                      double seconds,
                                      std::vector<HybridReview::Alone> alone) {
  HybridReview review;
  review.throughput = static_cast<double>(whole.globalBatch) / seconds;
  review.upperBound = findUpperBound(whole);
  review.losses = findAllLosses(whole, solved, seconds);
  review.alone = std::move(alone);
  return review;
}

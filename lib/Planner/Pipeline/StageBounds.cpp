//===- StageBounds.cpp - What any stages take at least --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Never.h"
#include "Pipeline/StageSearch.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace poplar;

UnitBounds::UnitBounds(const HybridProblem &problem)
    : hasEqualUnits(problem.hasEqualUnits()) {
  size_t units = problem.parameters.units.size();
  for (size_t type = 0; type < problem.types.size(); ++type)
    for (const HybridProblem::Mode &mode : problem.types[type].modes) {
      Bound &bound =
          bounds[{static_cast<int>(type), mode.tensorDegree, mode.microBatch}];
      for (auto *each : {&bound.forward, &bound.backward, &bound.both})
        each->resize(units, never);
      bound.modes.push_back(
          static_cast<int>(&mode - problem.types[type].modes.data()));
      for (size_t i = 0; i < units; ++i) {
        const HybridProblem::UnitCost &unit = mode.units[i];
        bound.forward[i] = std::min(bound.forward[i], unit.forward);
        bound.backward[i] = std::min(bound.backward[i], unit.backward);
        bound.both[i] = std::min(bound.both[i], unit.forward + unit.backward);
      }
    }
  for (auto &[key, bound] : bounds) {
    bound.sums.push_back(0);
    for (double unit : bound.both)
      bound.sums.push_back(bound.sums.back() + unit);
    if (units > 2)
      bound.leastInner =
          *std::min_element(bound.both.begin() + 1, bound.both.end() - 1);
  }
}

const UnitBounds::Bound *UnitBounds::find(int type, int tensorDegree,
                                          int64_t microBatch) const {
  auto entry = bounds.find({type, tensorDegree, microBatch});
  return entry == bounds.end() ? nullptr : &entry->second;
}

/// Sums over the units in front of each: the least share of the whole model
/// that a unit is, on any of `kinds`.
const std::vector<double> &StageSearch::getShares(unsigned kinds, size_t lane) {
  auto [entry, isNew] = shares.try_emplace({kinds, lane});
  if (!isNew)
    return entry->second;
  std::vector<double> &sums = entry->second;
  sums.push_back(0);
  for (int i = 0; i < units; ++i) {
    double least = never;
    for (size_t kind = 0; kind < shape.kinds.size(); ++kind)
      if (kinds >> kind & 1)
        least = std::min(least, bounds[kind][lane]->both[i] /
                                    bounds[kind][lane]->sums.back());
    sums.push_back(sums.back() + least);
  }
  return sums;
}

/// The least of a stage that has `inner` of the units between the first and the
/// last, in front of `depth - 1` others; of depth 0, whatever memory there is.
/// The last unit is in the last stage.
double StageSearch::getLeastSeconds(int kind, size_t lane, int inner,
                                    int depth) {
  if (depth == 0 || !isMonotone)
    return inner * leastUnits[kind][lane];
  if (leastSeconds.size() <= static_cast<size_t>(depth))
    leastSeconds.resize(depth + 1);
  if (inner == 0)
    return 0;
  std::vector<double> &known = leastSeconds[depth];
  known.resize(shape.kinds.size() * shape.lanes() * units, -1);
  double &entry = known[(kind * shape.lanes() + lane) * units + inner];
  if (entry >= 0)
    return entry;
  double least = never;
  auto take = [&](int first, int end) {
    if (end - first < shape.chunks)
      return;
    for (const Option &option : getOptions(kind, first, end))
      if (option.mostDepth >= depth)
        least = std::min(least, option.costs[lane].both());
  };
  // Each chunk has a unit: a stage of less may have more.
  if (inner < shape.chunks && inner < units - 2)
    least = getLeastSeconds(kind, lane, inner + 1, depth);
  take(1, 1 + inner);
  take(0, 1 + inner);
  if (depth == 1)
    take(units - 1 - inner, units);
  if (depth == 1 && inner + 2 == units)
    take(0, units);
  return entry = least;
}

/// The most of these units that a stage has in time `period`. More of them take
/// longer and more memory; only of all units, less may be exchanged.
int StageSearch::countHeld(int kind, size_t lane, int depth, double period) {
  double limit = period * (1 + 1e-8), unit = leastUnits[kind][lane];
  int most = units - 2;
  if (most * unit > limit)
    most = static_cast<int>(limit / unit);
  if (getLeastSeconds(kind, lane, most, depth) <= limit)
    return most;
  int held = 0;
  while (held + 1 < most) {
    int middle = (held + most) / 2;
    (getLeastSeconds(kind, lane, middle, depth) <= limit ? held : most) =
        middle;
  }
  return held;
}

/// The least time in which a stage has more of them than `held`.
double StageSearch::getNextPeriod(int kind, size_t lane, int depth, int held) {
  double next = never;
  for (int inner : {held + 1, units - 2})
    if (inner > held && inner <= units - 2)
      next = std::min(next, getLeastSeconds(kind, lane, inner, depth));
  return next;
}

/// Units are whole: the least P, from `period` on, in which stages in front of
/// `depth - 1` others hold all units in front of `begin`. None if that is too
/// long to be of use.
double StageSearch::getWholePeriod(size_t lane, int begin,
                                   const std::vector<int> &used, int depth,
                                   double period) {
  int inner = std::min(begin, units - 1) - 1;
  double most = getLongestPeriod(lane);
  while (inner > 0 && period < most) {
    double holds = 0, next = most;
    for (size_t i = 0; i < shape.kinds.size(); ++i) {
      int kind = static_cast<int>(i), left = shape.kinds[i].slots - used[i];
      if (left <= 0)
        continue;
      int each = countHeld(kind, lane, depth, period);
      holds += left * static_cast<double>(each);
      next = std::min(next, getNextPeriod(kind, lane, depth, each));
    }
    if (holds >= inner)
      break;
    if (next >= most)
      return never;
    period = std::max(period, next * (1 - 1e-9));
  }
  return period;
}

// The least load of the busiest of unlike devices that share units without
// remainder is at least sum_x min_k y_k w_k(x) / sum_k n_k y_k, whatever the
// weights y (duality of linear programs); here y_k = 1 / sum_x w_k(x).
StageSearch::PerLane StageSearch::getRestPeriods(int begin,
                                                 const std::vector<int> &used) {
  PerLane periods{};
  if (begin == 0)
    return periods;
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    unsigned kinds = 0;
    double rate = 0;
    for (size_t kind = 0; kind < shape.kinds.size(); ++kind) {
      int left = std::min(shape.kinds[kind].slots - used[kind], begin);
      if (left <= 0)
        continue;
      kinds |= 1u << kind;
      rate += left / bounds[kind][lane]->sums.back();
    }
    periods[lane] = kinds ? getShares(kinds, lane)[begin] / rate : never;
  }
  return periods;
}

const StageSearch::PerLane &StageSearch::getWholePeriods(int begin, int use) {
  auto [entry, isNew] =
      wholePeriods.try_emplace(int64_t(use) * (units + 1) + begin);
  if (isNew) {
    const auto &[used, depth, next] = uses[use];
    PerLane &periods = entry->second = getRestPeriods(begin, used);
    for (size_t lane = 0; begin > 0 && lane < shape.lanes(); ++lane)
      if (periods[lane] < never)
        periods[lane] =
            getWholePeriod(lane, begin, used, depth + 1, periods[lane]);
  }
  return entry->second;
}

/// A stage that takes longer makes no plan better than the limit.
double StageSearch::getLongestPeriod(size_t lane) const {
  double chunks = shape.chunks,
         steps = (shape.lanes() == 1
                      ? microBatches
                      : static_cast<double>(shape.leastMicroBatches)) -
                 1 / chunks;
  return steps > 0
             ? std::min(limit, (limit - restBoth[lane].back() / chunks) / steps)
             : limit;
}

/// From the stages in front of `begin` to the next, where it is known how many
/// there are.
double StageSearch::countRestMessages(int begin, int depth) const {
  return begin > 0 && shape.usesAllSlots
             ? shape.countSlots() - depth - (depth == 0)
             : 0;
}

/// What E is more than R at least, but for what the forward passes in front of
/// `begin` add to both.
double StageSearch::getRestEnd(size_t lane, int begin, int depth) const {
  return restBackward[lane][begin] / shape.chunks +
         countRestMessages(begin, depth) * leastMessage[lane] + leastSync[lane];
}

/// The first stage exchanges the least if it has the least units, or all of
/// them: then none are tied to others. What it computes does not matter.
const UnitBounds::PerLane &
UnitBounds::getLeastSync(const HybridProblem &problem, const HybridCosts &costs,
                         const std::vector<GroupPart> &parts,
                         int chunks) const {
  std::vector<int64_t> key = {chunks};
  for (const GroupPart &part : parts)
    key.insert(key.end(), {part.type, part.tensorDegree, part.pipelines});
  auto [entry, isNew] = leastSyncs.try_emplace(std::move(key));
  PerLane &least = entry->second;
  if (!isNew)
    return least;
  least.fill(never);
  for (int zero : problem.zeroStages)
    for (int end : {chunks, problem.units()})
      if ((zero <= 1 || parts.size() == 1) && end <= problem.units())
        for (size_t lane = 0; lane < parts.size(); ++lane)
          least[lane] =
              std::min(least[lane], costs.getSync({0, end, zero}, parts, lane));
  return least;
}

/// No plan that ends with stages of these times takes less.
double StageSearch::getBound(const Times &times, int begin, int depth,
                             const PerLane &rest) const {
  double samples = static_cast<double>(problem.globalBatch), rates = 0,
         longest = 0, messages = countRestMessages(begin, depth);
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    if (rest[lane] == never)
      return never;
    double chunks = shape.chunks,
           period = std::max(times[lane].getPeriod(), rest[lane]),
           forward = restForward[lane][begin] / chunks +
                     messages * leastMessage[lane],
           end =
               std::max(times[lane].roundTrip + restBoth[lane][begin] / chunks +
                            2 * messages * leastMessage[lane] + leastSync[lane],
                        times[lane].end + forward);
    if (shape.lanes() == 1)
      return (microBatches - 1 / chunks) * period + end;
    // In time T a lane is done with at most (T - end) / period + 1 / chunks.
    auto size = static_cast<double>(shape.getStep(lane));
    samples += size * (end / period - 1 / chunks);
    rates += size / period;
    longest = std::max(longest, end);
  }
  return std::max(longest, samples / rates);
}

double StageSearch::getLowerBound() {
  std::vector<int> used(shape.kinds.size());
  PerLane periods = getRestPeriods(units, used);
  for (size_t lane = 0; lane < shape.lanes(); ++lane)
    if (periods[lane] < never)
      periods[lane] = getWholePeriod(lane, units, used, 0, periods[lane]);
  return getBound({}, units, 0, periods);
}

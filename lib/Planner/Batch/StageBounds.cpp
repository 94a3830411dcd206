//===- StageBounds.cpp - What any stages take at least --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline/StageSearch.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace poplar;

static constexpr double never = std::numeric_limits<double>::infinity();

UnitBounds::UnitBounds(const HybridProblem &problem) {
  size_t units = problem.elements.size();
  for (size_t type = 0; type < problem.types.size(); ++type)
    for (const HybridProblem::Mode &mode : problem.types[type].modes) {
      Bound &bound =
          bounds[{static_cast<int>(type), mode.tensorDegree, mode.microBatch}];
      bound.units.resize(units, never);
      bound.forwardUnits.resize(units, never);
      for (size_t i = 0; i < units; ++i) {
        const HybridProblem::UnitCost &unit = mode.units[i];
        bound.units[i] = std::min(bound.units[i], unit.forward + unit.backward);
        bound.forwardUnits[i] = std::min(bound.forwardUnits[i], unit.forward);
      }
    }
}

const UnitBounds::Bound *UnitBounds::find(int type, int tensorDegree,
                                          int64_t microBatch) const {
  auto entry = bounds.find({type, tensorDegree, microBatch});
  return entry == bounds.end() ? nullptr : &entry->second;
}

/// Of the units in front of each: the sum over units of the least share of the
/// whole model that one is, on any of `kinds`.
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
        least = std::min(least, bounds[kind][lane]->units[i] /
                                    unitSums[kind][lane].back());
    sums.push_back(sums.back() + least);
  }
  return sums;
}

/// Units are whole: in time P, a stage of kind k holds no more of those between
/// the first and the last unit than the least of them fits into P. The least P,
/// from `period` on, in which stages hold them all.
double StageSearch::getWholePeriod(size_t lane, int begin,
                                   const std::vector<int> &used,
                                   double period) const {
  int inner = std::min(begin, units - 1) - 1;
  if (inner <= 0)
    return period;
  while (true) {
    double holds = 0, next = never;
    for (size_t kind = 0; kind < shape.kinds.size(); ++kind) {
      int left = shape.kinds[kind].slots - used[kind];
      double unit = leastUnits[kind][lane];
      if (left <= 0)
        continue;
      double each = std::floor(period / unit * (1 + 1e-8));
      holds += left * each;
      next = std::min(next, (each + 1) * unit);
    }
    if (holds >= inner)
      return period;
    period = next * (1 - 1e-9);
  }
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
      rate += left / unitSums[kind][lane].back();
    }
    periods[lane] = kinds ? getWholePeriod(lane, begin, used,
                                           getShares(kinds, lane)[begin] / rate)
                          : never;
  }
  return periods;
}

/// No plan that ends with stages of these times takes less.
double StageSearch::getBound(const Times &times, int begin,
                             const PerLane &rest) const {
  double samples = static_cast<double>(problem.globalBatch), rates = 0,
         longest = 0;
  for (size_t lane = 0; lane < shape.lanes(); ++lane) {
    if (rest[lane] == never)
      return never;
    double chunks = shape.chunks,
           period = std::max(times[lane].getPeriod(), rest[lane]),
           end =
               std::max(times[lane].roundTrip + restBoth[lane][begin] / chunks,
                        times[lane].end + restForward[lane][begin] / chunks);
    if (shape.lanes() == 1)
      return (static_cast<double>(shape.countMicroBatches(problem)) -
              1 / chunks) *
                 period +
             end;
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
  return getBound({}, units, getRestPeriods(units, used));
}

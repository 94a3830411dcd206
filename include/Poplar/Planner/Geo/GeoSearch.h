//===- GeoSearch.h - Finding pipelines over distant devices -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A search for plans of little cost, and a bound on what any could cost. Both
// are functions of the problem alone: nothing is random, and no clock is read.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_GEO_GEOSEARCH_H
#define POPLAR_PLANNER_GEO_GEOSEARCH_H

#include "Poplar/Planner/Deadline.h"
#include "Poplar/Planner/Geo/GeoProblem.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <limits>

namespace poplar {

struct GeoSearchResult {
  /// None if `error` says why there is none.
  std::optional<GeoPlan> plan;
  std::string error;
  /// The best plans of other numbers of stages and pipelines and of the other
  /// schedule, as far as they were found; the fastest first.
  std::vector<GeoPlan> others;
  /// No plan takes less.
  double lowerBound = 0;
  /// Devices priced.
  int64_t effort = 0;

  bool isProven() const {
    return plan && lowerBound >= plan->seconds * (1 - 1e-9);
  }
};

/// Devices priced, about; some seconds.
constexpr int64_t geoEffort = 100000000;
/// What is worth while for few devices, which have few plans: so many times the
/// cube of their number.
constexpr int64_t geoEffortOfFew = 40000;

/// The best plan found until `deadline`, of shapes whose bound is below
/// `limit`. How it is searched for: docs/placement-theory.md.
GeoSearchResult
searchGeoPlan(const GeoProblem &problem, int64_t effort = geoEffort,
              double limit = std::numeric_limits<double>::infinity(),
              const Deadline &deadline = Deadline());

class GeoCosts;

/// No plan of `stages` stages and `pipelines` pipelines costs less. The proof
/// is in GeoBound.cpp.
class GeoBound {
public:
  /// The problem must pass its check().
  explicit GeoBound(const GeoCosts &costs);
  double get(int stages, int pipelines, PipelineSchedule schedule) const;

private:
  double getSync(double elements, int pipelines) const;
  double getAlone(int pipelines) const;

  const GeoCosts &costs;
  const GeoProblem &problem;
  /// Least seconds of all units together: forward, and both passes; and of the
  /// unit that takes most, both.
  double forward = 0, both = 0, longestUnit = 0;
  /// Seconds of all units on each device, ascending; and 1 / seconds of so many
  /// devices that are fastest, added up.
  std::vector<double> whole, rates;
  /// The least part that a unit's share of all units' seconds adds up to.
  double shareSum = 0;
  /// The cheapest messages that join all devices without a cycle, added up.
  std::vector<double> joins;
  /// Trained elements of all units, those of them that are tied, and those of
  /// the first unit that are not.
  double elements = 0, tied = 0, firstElements = 0;
  /// The least delay and the greatest bandwidth between nodes.
  LinkSpeed best = {std::numeric_limits<double>::infinity(), 0};
  /// The most devices of any node, and the fastest link inside one.
  int mostInNode = 1;
  LinkSpeed bestInside = {0, 0};
  double leastOptimizer = 0;
};

/// The plan pass by pass (PipelineSimulation.h): a lane for each pipeline.
PipelineSimulation simulateGeoPlan(const GeoProblem &problem,
                                   const GeoPlan &plan,
                                   bool recordsTimeline = false);

} // namespace poplar

#endif // POPLAR_PLANNER_GEO_GEOSEARCH_H

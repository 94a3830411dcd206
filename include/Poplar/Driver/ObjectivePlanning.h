//===- ObjectivePlanning.h - Plans by time and by cost ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An iteration costs its seconds times the prices of the devices that take part
// (`price` of a device type, of a device and hour). The objectives are those of
// Sailor (SOSP 2025): least time, with a limit on the cost, or least cost, with
// a limit on the time. Parts of the cluster are planned one after the other:
// all devices of a type, half of them, a quarter, ..., none, of each type. A
// part is left out if no plan on it can be the best (findUpperBound()).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_OBJECTIVEPLANNING_H
#define POPLAR_DRIVER_OBJECTIVEPLANNING_H

#include "Poplar/Driver/AutoPlanning.h"

namespace poplar {

struct Objective {
  /// Least cost; else least time.
  bool minimizesCost = false;
  /// Limits of an iteration: cost, in the currency of the prices, and seconds.
  std::optional<double> budget, deadline;

  /// Otherwise the fastest plan is all that is asked for.
  bool isSet() const { return minimizesCost || budget; }
};

/// The best plan of a part of the cluster.
struct PricedPlan {
  double seconds = 0, cost = 0;
  /// The plan's devices, by device type of the cluster, and its policy.
  std::vector<int64_t> devices;
  std::string policy;
};

struct ObjectiveReport {
  AutoReport chosen;
  PricedPlan plan;
  /// Plans than which no other that was made is both faster and cheaper, the
  /// fastest first.
  std::vector<PricedPlan> frontier;
  /// Parts of the cluster, and how many of them were planned.
  int64_t parts = 0, planned = 0;
};

/// Adds the plan to the module that is best by `objective`. Fails, with an
/// error said or in `compilation`, if there is none within its limits, or if a
/// device type has no price.
bool planByObjective(Compilation &compilation, const AutoRequest &request,
                     const Objective &objective, ObjectiveReport &report);

/// What the plan costs, and the frontier.
std::string formatCosts(const ClusterView &cluster,
                        const ObjectiveReport &report);
/// formatAutoJSON() with `cost`, `frontier`, `parts` and `planned_parts`.
std::string formatObjectiveJSON(const ClusterView &cluster,
                                const ObjectiveReport &report);

} // namespace poplar

#endif // POPLAR_DRIVER_OBJECTIVEPLANNING_H

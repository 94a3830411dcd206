//===- PlanExplanation.h - Why a plan is as it is ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What limits each rank, which device slows the job, what another device would
// buy, and what the next best plans would cost. Data first; its text apart.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_PLANEXPLANATION_H
#define POPLAR_PLANNER_ZERO_PLANEXPLANATION_H

#include "Poplar/Planner/Cluster/DeviceSelection.h"

namespace poplar {

struct PlanExplanation {
  /// Why ranks have no more samples than they have.
  enum class Limit {
    /// No more fit in a step. In stages 0 and 1: larger steps would be faster
    /// per sample, but do not fit.
    Memory,
    /// The same where the profile ends before memory does.
    Profile,
    /// With one more, the others would wait for it.
    Speed,
    /// One more would fit and take no longer, but the others have the rest, or
    /// the policy gives no more.
    Remainder,
    /// The rank takes no part in the job.
    Dropped,
  };
  /// Devices of a type with the same share.
  struct RankGroup {
    size_t type;
    /// Devices [firstDevice, firstDevice + count) of the type.
    int64_t firstDevice, count;
    RankShare share;
    Limit limit;
    /// Seconds per iteration that the rank computes, and that it waits for
    /// slower ones. The rest of the iteration is communication.
    double busy, waiting;
    /// No rank takes longer: in stages 2 and 3 for a step (the last if there is
    /// no other), in stages 0 and 1 for the iteration.
    bool slowest;
  };
  std::vector<RankGroup> groups;

  /// Samples per second, and the sum of what all devices, also dropped ones,
  /// could do on their own at their best micro-batch that fits.
  double throughput, sumOfParts;

  /// Predicted seconds of an iteration if this was different, with the same
  /// policy (with the exact one for a plan that is of none); none if there is
  /// no such plan.
  struct WhatIf {
    /// One device more, and one less.
    std::optional<double> oneMore, oneLess;
    /// Memory for one more sample on each; also none where the curve, hence
    /// knowledge, ends.
    std::optional<double> moreMemory;
  };
  /// By type.
  std::vector<WhatIf> whatIf;

  /// See bestAllocations(): the optimum for the devices that are not dropped,
  /// and what comes next.
  std::vector<Allocation> bestPlans;
};

/// Explains a solution of `problem`. `problemOf` poses the problems of jobs
/// with one device more or less; without it, all but the count stays the same,
/// as do the seconds of synchronisation. `alternatives` plans are looked for
/// besides the best.
PlanExplanation explain(const BatchProblem &problem,
                        const Allocation &allocation,
                        const ProblemOfCounts &problemOf = nullptr,
                        size_t alternatives = 3);

/// Lines of text for people, with a line break at the end.
std::string formatExplanation(const BatchProblem &problem,
                              const Allocation &allocation,
                              const PlanExplanation &explanation);

/// "memory", "profile", "speed", "remainder", "dropped".
const char *toString(PlanExplanation::Limit limit);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_PLANEXPLANATION_H

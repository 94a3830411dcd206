//===- PlanShortlist.h - Plans that are worth simulating --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The cost in BatchProblem.h is a closed form. What it leaves out (who waits
// for whom in the middle of a step, what fits beside what) decides between
// plans that it finds almost equal, so the best are held against each other by
// simulation. They are few, and unlike: more plans beside the optimum would be
// small changes of it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_PLANSHORTLIST_H
#define POPLAR_PLANNER_ZERO_PLANSHORTLIST_H

#include "Poplar/Planner/Zero/PlanSearch.h"

namespace poplar {

/// Up to `count` of these, of least time by the closed form, the best first:
///
/// - the best plan of every stage and sharding that the search found;
/// - with the policy `exact`, for the same devices: the best for other numbers
///   of steps (bestAllocations()), and what the other policies make of them;
/// - and what the other policies make of all devices, and of those of one type,
///   as if they had been asked for by themselves. For each policy its best is
///   kept, whatever its time: what is chosen is no slower than any of them.
///
/// Each says in its allocation which policy it is of. Empty if the search found
/// no plan.
std::vector<PlanCandidate>
shortlistPlans(const ClusterView &cluster, const ModelFacts &model,
               const BatchPolicy &policy, const PlanChoices &choices,
               const PlanSearchResult &found, size_t count = 8);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_PLANSHORTLIST_H

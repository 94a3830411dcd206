//===- Lanes.h - Unlike pipelines of a plan ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pipelines of one stage may differ in the number of ranks that share units: in
// some of them, one rank computes whole units. Such a rank holds what all ranks
// of the others do, so its place (Plan::Place) is behind theirs.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PLAN_LANES_H
#define POPLAR_PLANNER_PLAN_LANES_H

#include "Poplar/Planner/Plan/Plan.h"

namespace poplar {

/// Whether pipelines of a group share units among unlike numbers of ranks.
bool hasUnlikeDegrees(const Plan::Group &group);

/// Plan::Group::getPartsOfRanks() of one pipeline.
std::vector<int64_t> getPartsOfRanks(const Plan::Group &group, size_t pipeline);

/// Why no programs are made of a group of unlike degrees; empty if they are.
std::string explainUnlikeDegrees(const Plan::Group &group);

/// Shares of `samples` for pipelines, in proportion to their weights, in
/// micro-batches of `microBatch`; the last has what is left. With `sameSteps`
/// all pipelines have equally many, and equal weights.
std::vector<RankShare> sharePipelines(int64_t samples,
                                      const std::vector<int64_t> &weights,
                                      int64_t microBatch, bool sameSteps);

} // namespace poplar

#endif // POPLAR_PLANNER_PLAN_LANES_H

//===- StagePlan.h - A plan of pipeline stages ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_STAGEPLAN_H
#define POPLAR_TRANSFORMS_PLAN_STAGEPLAN_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Batch/BatchProblem.h"
#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// What a zero.plan with groups says.
struct StagePlan {
  struct Group {
    /// Of each chunk, the first and the end of its units.
    std::vector<int64_t> units;
    /// Of ZeRO.
    int64_t zeroStage = 0;
    /// By pipeline: the ranks of the cluster that share the units in it, and
    /// what they recompute; empty for what their type does.
    std::vector<std::vector<int>> ranks;
    std::vector<std::string> recompute;
    /// How much of each unit the ranks that share it compute, relative to each
    /// other; empty where all compute as much.
    std::vector<int64_t> parts;
  };
  PipelineSchedule schedule = PipelineSchedule::OneForwardOneBackward;
  std::string policy;
  std::vector<Group> groups;
  /// By pipeline.
  std::vector<RankShare> shares;
};

/// Shares samples evenly among pipelines, in micro-batches of at most
/// `microBatch`, the last of a pipeline perhaps smaller; with `sameSteps` in
/// equally many.
std::vector<RankShare> sharePipelines(int64_t samples, int64_t pipelines,
                                      int64_t microBatch, bool sameSteps);

/// Adds it to a module that holds the cluster. A plan of one group is one
/// without.
zero::PlanOp addStagePlan(mlir::ModuleOp module, const ClusterView &cluster,
                          const StagePlan &plan);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_STAGEPLAN_H

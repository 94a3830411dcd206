//===- PipelineLane.h - Pipelines to be simulated ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_PIPELINELANE_H
#define POPLAR_LIB_PLANNER_PIPELINELANE_H

#include "Pipeline/HybridCost.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"

namespace poplar {

/// Pipelines that do the same at the same time.
struct PipelineLane {
  PipelineSchedule schedule;
  std::vector<PlannedStage> stages;
  /// By stage and chunk.
  std::vector<std::vector<HybridPlan::Range>> units;
  int64_t microBatches = 1;
  /// The device type of each stage.
  std::vector<std::string> types;
};

/// A stage exchanges gradients when all stages that have some of its units have
/// theirs.
PipelineSimulation simulateLanes(const std::vector<PipelineLane> &lanes,
                                 bool recordsTimeline);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_PIPELINELANE_H

//===- HybridResult.h - A hybrid plan and its search ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H

#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "Poplar/Planner/Pipeline/HybridSearch.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"

namespace poplar {

/// What hybrid and geo planning are asked for.
struct HybridRequest {
  /// Samples of an iteration; bytes that buckets have at least.
  int64_t globalBatch = 0, bucketBytes = 0;
  /// "auto", or that of all groups.
  std::string stage = "auto";
  /// Of devices that share a unit, of chunks of a stage; 0 for any.
  int mostTensorDegree = 0, mostChunks = 0;
  /// Plan stages that cannot be built, too. They are simulated by the costs of
  /// units: there are no programs.
  bool hypothetical = false;
  bool recordsTimeline = false;
};

struct HybridResult {
  HybridModel model;
  /// Of the devices that take part, and of all.
  HybridProblem problem, whole;
  /// By type of the problem.
  std::vector<HybridCluster::Devices> devices;
  /// Has a plan. Its bound is one of all choices of devices if they were all
  /// tried, else of those of `problem`.
  HybridSearchResult search;
  bool triedAllDevices = false;
  PipelineSimulation simulation;
  /// It is of the plan's programs (playStages()), not of the costs of units.
  bool isPlayed = false;
  /// By group and lane, ranks of the cluster: those of a pipeline together.
  std::vector<std::vector<std::vector<int>>> ranks;
};

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H

//===- HybridAllocate.cpp - Plans of pipeline stages ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "StagedPass.h"

namespace poplar {
#define GEN_PASS_DEF_HYBRIDALLOCATE
#include "Poplar/Allocation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

HybridFilter poplar::getFilter(const HybridRequest &request) {
  return [request](HybridProblem &problem) {
    problem.sharesAlike = !request.hypothetical;
    for (HybridProblem::DeviceType &type : problem.types)
      llvm::erase_if(type.modes, [&](const HybridProblem::Mode &mode) {
        return (request.mostTensorDegree > 0 &&
                mode.tensorDegree > request.mostTensorDegree) ||
               (!request.hypothetical && mode.tensorDegree > type.mostSharers);
      });
    if (request.stage != "auto")
      problem.zeroStages = {std::stoi(request.stage)};
  };
}

static int getMostChunks(const HybridRequest &request) {
  return request.mostChunks > 0 ? request.mostChunks
                                : HybridProblem::mostChunks;
}

HybridSelection poplar::selectDevices(const ClusterView &cluster,
                                      const HybridModel &model,
                                      const HybridRequest &request,
                                      int64_t mostChoices) {
  return selectHybridDevices(cluster, model, request.globalBatch,
                             getFilter(request), hybridEffort,
                             getMostChunks(request), mostChoices);
}

FailureOr<PipelineSimulation> poplar::takeFastest(ModuleOp module,
                                                  const ClusterView &cluster,
                                                  const HybridRequest &request,
                                                  const HybridModel &model,
                                                  HybridSelection &selection) {
  const HybridProblem &problem = selection.cluster.problem;
  HybridChoice &choice = selection.choice;
  auto play = [&](const HybridPlan &plan) {
    std::vector<int64_t> pipelines;
    for (const HybridPlan::Lane &lane : plan.lanes)
      pipelines.push_back(lane.pipelines);
    HybridRanks ranks = assignRanks(problem, selection.cluster.devices, plan);
    return playStages(module, model, writePlan(cluster, problem, plan, ranks),
                      pipelines, request.bucketBytes, request.recordsTimeline);
  };
  FailureOr<PipelineSimulation> fastest = play(*choice.search.plan);
  for (const HybridPlan &other : choice.others) {
    FailureOr<PipelineSimulation> played = play(other);
    if (failed(fastest) || failed(played))
      return failure();
    if (played->seconds >= fastest->seconds)
      continue;
    fastest = std::move(played);
    choice.search.plan = other;
    choice.search.lowerBound =
        std::min(choice.bounds[other.chunks], other.seconds);
    // That bound is one of the devices that were chosen.
    selection.isExhaustive = false;
  }
  if (succeeded(fastest))
    choice.seconds = fastest->seconds;
  return fastest;
}

/// Takes the columns of all devices where they are faster than the plan that
/// was found.
static void takeColumns(const HybridRequest &request,
                        const HybridSelection &found, HybridResult &result) {
  const HybridChoice &choice = found.choice;
  HybridColumns columns =
      searchHybridColumns(found.whole.problem, hybridEffort,
                          getMostChunks(request), choice.seconds);
  result.lowerBoundOfKinds =
      std::min(result.lowerBoundOfKinds, columns.lowerBound);
  if (columns.simulated >= choice.seconds)
    return;
  for (HybridColumns::Column &column : columns.columns)
    result.columns.push_back({std::move(column), {}});
  result.devices = found.whole.devices;
  result.predicted = columns.predicted;
  result.lowerBound = columns.lowerBound;
  result.triedAllDevices = true;
}

LogicalResult poplar::findPlan(ModuleOp module, const ClusterView &cluster,
                               const HybridRequest &request,
                               HybridResult &result, std::string &error) {
  FailureOr<HybridModel> model = getHybridModel(module, cluster);
  if (failed(model))
    return failure();
  result.model = std::move(*model);
  HybridSelection found =
      selectDevices(cluster, result.model, request, /*mostChoices=*/0);
  if (!found.choice.search.plan) {
    error = found.choice.search.error;
    return failure();
  }
  result.isPlayed = !request.hypothetical;
  if (result.isPlayed) {
    FailureOr<PipelineSimulation> played =
        takeFastest(module, cluster, request, result.model, found);
    if (failed(played))
      return failure();
    result.simulation = std::move(*played);
  }
  const HybridPlan &plan = *found.choice.search.plan;
  result.predicted = plan.seconds;
  result.lowerBound = found.choice.search.lowerBound;
  result.lowerBoundOfKinds = result.lowerBound;
  for (int chunks = 1; chunks <= getMostChunks(request); ++chunks)
    result.lowerBoundOfKinds =
        std::min(result.lowerBoundOfKinds, found.choice.bounds[chunks]);
  result.triedAllDevices = found.isExhaustive;
  if (request.plansColumns)
    takeColumns(request, found, result);
  if (result.columns.empty()) {
    result.columns.push_back({{found.cluster.problem, plan}, {}});
    result.devices = std::move(found.cluster.devices);
  }
  result.whole = std::move(found.whole.problem);
  // Each column has types of its own.
  for (HybridResult::Column &column : result.columns)
    column.ranks = assignRanks(column.problem, result.devices, column.plan);
  if (!result.isPlayed) {
    std::vector<SolvedProblem> solved;
    for (const HybridResult::Column &column : result.columns)
      solved.push_back({column.problem, column.plan});
    result.simulation = simulatePipelines(solved, request.recordsTimeline);
  }
  return success();
}

LogicalResult poplar::addPlan(ModuleOp module, const ClusterView &cluster,
                              const HybridRequest &request,
                              const HybridResult &result) {
  const HybridResult::Column &column = result.columns.front();
  Plan plan = writePlan(cluster, column.problem, column.plan, column.ranks);
  plan.predicted = result.predicted;
  if (result.isPlayed)
    plan.simulated = result.simulation.seconds;
  return addStages(module, plan, request.bucketBytes);
}

namespace {

struct HybridAllocatePass
    : StagedPass<poplar::impl::HybridAllocateBase<HybridAllocatePass>,
                 HybridResult> {
  using StagedPass::StagedPass;
};

} // namespace

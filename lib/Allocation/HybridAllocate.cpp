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

HybridSelection poplar::selectDevices(const ClusterView &cluster,
                                      const HybridModel &model,
                                      const HybridRequest &request,
                                      int64_t mostChoices) {
  return selectHybridDevices(
      cluster, model, request.globalBatch, getFilter(request), hybridEffort,
      request.mostChunks > 0 ? request.mostChunks : HybridProblem::mostChunks,
      mostChoices);
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
  } else {
    result.simulation =
        simulatePipeline(found.cluster.problem, *found.choice.search.plan,
                         request.recordsTimeline);
  }
  result.search = std::move(found.choice.search);
  result.triedAllDevices = found.isExhaustive;
  result.problem = std::move(found.cluster.problem);
  result.whole = std::move(found.whole.problem);
  result.devices = std::move(found.cluster.devices);
  result.ranks =
      assignRanks(result.problem, result.devices, *result.search.plan);
  return success();
}

LogicalResult poplar::addPlan(ModuleOp module, const ClusterView &cluster,
                              const HybridRequest &request,
                              const HybridResult &result) {
  Plan plan =
      writePlan(cluster, result.problem, *result.search.plan, result.ranks);
  plan.predicted = result.search.plan->seconds;
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

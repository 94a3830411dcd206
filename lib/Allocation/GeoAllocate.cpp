//===- GeoAllocate.cpp - Plans over slow, unlike links --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossyPlans.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "StagedPass.h"

namespace poplar {
#define GEN_PASS_DEF_GEOALLOCATE
#include "Poplar/Allocation/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// The plan of result.model.
static LogicalResult findPlanOfModel(ModuleOp module,
                                     const ClusterView &cluster,
                                     const HybridRequest &request,
                                     GeoResult &result, std::string &error) {
  std::optional<HybridCluster> whole =
      makeGeoSource(cluster, result.model, request.globalBatch, error);
  if (!whole)
    return failure();
  getFilter(request)(whole->problem);
  std::vector<GeoCluster> problems = makeGeoProblems(cluster, *whole, error);
  if (problems.empty())
    return failure();
  GeoChoice choice = searchGeoClusters(problems, geoEffort,
                                       request.knownSeconds, request.deadline);
  result.search.lowerBound = choice.search.lowerBound;
  if (!choice.search.plan) {
    result.isSlower = request.hasKnownPlan();
    error = result.isSlower ? describeSlower(request) : choice.search.error;
    return failure();
  }
  result.devices = std::move(whole->devices);
  result.isPlayed = !request.hypothetical;
  auto take = [&](GeoChoice::Finalist &finalist, PipelineSimulation played) {
    result.cluster = problems[finalist.problem];
    result.search.plan = std::move(finalist.plan);
    result.simulation = std::move(played);
  };
  if (!result.isPlayed) {
    GeoChoice::Finalist &first = choice.finalists.front();
    take(first, simulateGeoPlan(problems[first.problem].problem, first.plan,
                                request.recordsTimeline));
    return success();
  }
  PlayedPlans plans(request);
  for (GeoChoice::Finalist &finalist : choice.finalists) {
    if (!plans.mayBeFastest(finalist.seconds))
      break;
    Plan plan = writePlan(cluster, problems[finalist.problem], finalist.plan);
    if (std::string reason = explainUnbuildable(cluster, plan);
        !reason.empty()) {
      error = reason;
      continue;
    }
    FailureOr<PipelineSimulation> played =
        playStages(module, result.model, plan,
                   std::vector<int64_t>(finalist.plan.pipelines(), 1),
                   request.bucketBytes, request.recordsTimeline);
    if (failed(played))
      return failure();
    if (plans.add(finalist.seconds, played->seconds))
      take(finalist, std::move(*played));
  }
  if (plans.isFirst())
    return failure();
  error.clear();
  return success();
}

LogicalResult poplar::findPlan(ModuleOp module, const ClusterView &cluster,
                               const HybridModel &model,
                               const HybridRequest &request, GeoResult &result,
                               std::string &error) {
  return findExactOrLossy(
      cluster, model, request, listGradientWires(), result, error,
      [&](const ClusterView &view, GeoResult &found) {
        return findPlanOfModel(module, view, request, found, error);
      });
}

LogicalResult poplar::addPlan(ModuleOp module, const ClusterView &cluster,
                              const HybridRequest &request,
                              const GeoResult &result) {
  Plan plan = writePlan(cluster, result.cluster, *result.search.plan);
  plan.setWires(result.wires);
  plan.predicted = result.search.plan->seconds;
  if (!request.allowsLossy)
    plan.lowerBound = result.search.lowerBound;
  if (result.isPlayed)
    plan.simulated = result.simulation.seconds;
  return addStages(module, plan, request.bucketBytes);
}

namespace {

struct GeoAllocatePass
    : StagedPass<poplar::impl::GeoAllocateBase<GeoAllocatePass>, GeoResult> {
  using StagedPass::StagedPass;
};

} // namespace

//===- GeoPlanning.cpp - Plans over slow, unlike links --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"

using namespace poplar;

static std::string explainPlan(const ClusterView &cluster,
                               const GeoReport &report) {
  const GeoPlan &plan = *report.search.plan;
  std::vector<std::vector<StageDevices>> stages;
  for (const std::vector<int> &stage : plan.stages) {
    std::vector<StageDevices> &devices = stages.emplace_back();
    for (int device : stage) {
      int kind = report.cluster.problem.devices[device].kind;
      devices.push_back({&cluster.types[report.cluster.types[kind]],
                         report.cluster.tensorDegrees[kind]});
    }
  }
  return explainRefusal(stages);
}

/// Of the best hybrid plan; `report` says why there is none. Fails with a
/// diagnostic.
static bool planHybridBeside(Compilation &compilation,
                             const ClusterView &cluster,
                             const HybridRequest &args, GeoReport &report) {
  HybridSelection found =
      selectDevices(cluster, report.model, args, /*mostChoices=*/1);
  if (found.choice.search.plan && !args.hypothetical &&
      mlir::failed(takeFastest(compilation.getModule(), cluster, args,
                               report.model, found)))
    return false;
  if (found.choice.search.plan)
    report.hybridSeconds = found.choice.seconds;
  report.hybridError = found.choice.search.error;
  return true;
}

bool poplar::planGeo(Compilation &compilation, const HybridRequest &args,
                     GeoReport &report) {
  ClusterView cluster;
  if (!readHybridModel(compilation, args, cluster, report.model))
    return false;
  mlir::ModuleOp module = compilation.getModule();
  report.buildability.leftOut = args.leftOut;
  std::vector<HybridCluster> hybrids = makeHybridProblems(
      cluster, report.model, args.globalBatch, compilation.error);
  if (hybrids.empty())
    return false;
  HybridCluster &whole = hybrids.front();
  getFilter(args)(whole.problem);
  std::vector<GeoCluster> problems =
      makeGeoProblems(cluster, whole, compilation.error);
  if (problems.empty())
    return false;
  GeoChoice choice = searchGeoClusters(problems);
  if (!choice.search.plan) {
    compilation.error = choice.search.error;
    return false;
  }
  report.numDevices = cluster.ranks.size();
  report.cluster = std::move(problems[choice.problem]);
  report.search = std::move(choice.search);
  const GeoPlan &plan = *report.search.plan;
  for (int type : report.cluster.types)
    report.typeNames.push_back(cluster.types[type].name);
  report.buildability.refusal = explainPlan(cluster, report);
  StagePlan stages = makeStagePlan(report.cluster, plan);
  if (args.hypothetical) {
    report.simulation =
        simulateGeoPlan(report.cluster.problem, plan, args.recordsTimeline);
  } else {
    mlir::FailureOr<PipelineSimulation> played =
        playStages(module, cluster, report.model, stages,
                   std::vector<int64_t>(plan.pipelines(), 1), args.bucketBytes,
                   args.recordsTimeline);
    if (mlir::failed(played))
      return false;
    report.simulation = std::move(*played);
    report.isPlayed = true;
  }
  report.links = findLinkLoads(report.cluster.problem, plan);
  report.uncertainty =
      getUncertainty(cluster, whole.devices, report.model.fingerprint);
  return planHybridBeside(compilation, cluster, args, report) &&
         planZeroAlone(compilation, args, report.pure) &&
         (!args.addsPlan ||
          recordPlan(module, cluster, stages, args.bucketBytes, plan.seconds,
                     report.simulation.seconds));
}

//===- HybridPlan.cpp - poplar plan --policy hybrid -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridPlan.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Target/HybridReport.h"
#include "Poplar/Target/ModelUnits.h"
#include "Poplar/Target/PlanSimulation.h"
#include "mlir/IR/Diagnostics.h"
#include <limits>

using namespace poplar;

/// The best plan without pipelines, made and simulated on a copy of the module.
/// That there is none is no error.
static bool planPure(Compilation &compilation, const HybridArguments &args,
                     HybridReport &report) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = compilation.getModule().clone();
  HeteroAllocateOptions allocation;
  allocation.globalBatch = args.globalBatch;
  allocation.stage = args.stage;
  if (!compilation.run(*copy, [&](mlir::OpPassManager &pm) {
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation));
      })) {
    std::swap(report.pureError, compilation.error);
    return true;
  }
  zero::PlanOp plan = *copy->getOps<zero::PlanOp>().begin();
  report.pureStage = static_cast<int>(plan.getStage());
  if (auto seconds = plan->getAttrOfType<mlir::FloatAttr>("predicted_seconds"))
    report.pureSeconds = seconds.getValueAsDouble();
  if (!compilation.schedule(*copy, HostOptions()))
    return false;
  mlir::FailureOr<PlanSimulation> simulation = buildPlanSimulation(*copy);
  if (mlir::failed(simulation))
    return false;
  std::optional<Simulation> result =
      simulate(simulation->problem, {}, compilation.error);
  if (result)
    report.pureSimulatedSeconds = result->seconds;
  return result.has_value();
}

/// Stages take the devices of their types in the order of the cluster, those of
/// a pipeline together.
static void assignRanks(HybridReport &report) {
  std::vector<size_t> used(report.devices.size());
  const HybridPlan &plan = *report.search.plan;
  report.ranks.resize(plan.groups.size());
  for (size_t j = 0; j < plan.groups.size(); ++j)
    for (const HybridPlan::Lane &lane : plan.lanes) {
      auto [type, mode] = lane.stages[j];
      size_t count =
          lane.pipelines * report.problem.types[type].modes[mode].tensorDegree;
      auto first = report.devices[type].ranks.begin() + used[type];
      report.ranks[j].emplace_back(first, first + count);
      used[type] += count;
    }
}

/// Of the types whose times are estimates.
static double getUncertainty(const ClusterView &cluster,
                             const std::vector<HybridCluster::Devices> &devices,
                             const std::string &fingerprint) {
  double uncertainty = 0;
  for (const auto &[type, ranks] : devices) {
    bool isMeasured = false;
    for (int stage = 0; stage < 4; ++stage) {
      const DeviceProfile *profile =
          cluster.findProfile(type, stage, fingerprint);
      isMeasured |= profile && !profile->isEstimate;
    }
    if (!isMeasured)
      uncertainty = std::max(
          uncertainty,
          getRooflineConstants(cluster.types[type].target).uncertainty);
  }
  return uncertainty;
}

/// Takes the best plan, simulated, of all problems that the cluster poses, and
/// plans every type alone.
static bool search(const ClusterView &cluster,
                   std::vector<HybridCluster> problems, HybridReport &report,
                   std::string &error) {
  std::vector<int> counts = cluster.countRanks();
  auto effort = hybridEffort / static_cast<int64_t>(problems.size());
  std::vector<HybridReview::Alone> alone;
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    std::vector<HybridProblem> ofType;
    for (const HybridCluster &it : problems)
      ofType.push_back(
          it.problem.restrictTo(it.findTypes(static_cast<int>(type))));
    alone.push_back(planAlone(ofType, effort));
    report.aloneNames.push_back(cluster.types[type].name);
  }
  double bound = std::numeric_limits<double>::infinity(), least = bound;
  for (HybridCluster &it : problems) {
    HybridSearchResult found = searchHybridPlan(it.problem, effort);
    double seconds = std::numeric_limits<double>::infinity();
    if (found.plan) {
      seconds = simulatePipeline(it.problem, *found.plan).seconds;
      bound = std::min(bound, found.lowerBound);
    }
    if (&it != &problems.front() && seconds >= least)
      continue;
    least = seconds;
    report.problem = std::move(it.problem);
    report.devices = std::move(it.devices);
    report.search = std::move(found);
  }
  report.search.lowerBound = bound;
  if (!report.search.plan) {
    error = report.search.error;
    return false;
  }
  for (const HybridCluster::Devices &devices : report.devices)
    report.typeNames.push_back(cluster.types[devices.type].name);
  report.review =
      reviewHybridPlan(report.problem, *report.search.plan, std::move(alone));
  return true;
}

bool planHybrid(Compilation &compilation, const HybridArguments &args) {
  mlir::ModuleOp module = compilation.getModule();
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({args.bucketBytes}));
      }))
    return false;
  ClusterView cluster = cluster::buildClusterView(module);
  mlir::FailureOr<HybridModel> model = getHybridModel(module, cluster);
  if (mlir::failed(model))
    return false;
  HybridReport report;
  report.model = std::move(*model);
  std::vector<HybridCluster> problems = makeHybridProblems(
      cluster, report.model, args.globalBatch, compilation.error);
  if (problems.empty())
    return false;
  if (args.stage != "auto")
    for (HybridCluster &it : problems)
      it.problem.zeroStages = {std::stoi(args.stage)};
  if (!search(cluster, std::move(problems), report, compilation.error))
    return false;
  report.simulation = simulatePipeline(report.problem, *report.search.plan,
                                       !args.trace.empty());
  report.uncertainty =
      getUncertainty(cluster, report.devices, report.model.fingerprint);
  assignRanks(report);
  if (!planPure(compilation, args, report))
    return false;
  for (auto [path, text] :
       {std::pair(args.json, formatHybridJSON(report)),
        std::pair(args.trace,
                  args.trace.empty()
                      ? ""
                      : formatChromeTrace(report.simulation.timeline,
                                          "hybrid plan, simulated"))})
    if (!path.empty() && !writeFile(path, text, compilation.error))
      return false;
  if (args.json != "-" && args.trace != "-")
    llvm::outs() << formatHybridText(report);
  return true;
}

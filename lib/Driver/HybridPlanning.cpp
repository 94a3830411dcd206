//===- HybridPlanning.cpp - Plans of pipeline stages ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridSteps.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Report/HybridReport.h"
#include "Poplar/Simulation/HybridSimulation.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "Poplar/Transforms/Plan/StagePlan.h"
#include "mlir/IR/Diagnostics.h"
#include <set>

using namespace poplar;

bool poplar::planZeroAlone(Compilation &compilation, const HybridRequest &args,
                           ZeroAlone &pure) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = compilation.getModule().clone();
  HeteroAllocateOptions allocation;
  allocation.globalBatch = args.globalBatch;
  allocation.stage = args.stage;
  if (!compilation.run(*copy, [&](mlir::OpPassManager &pm) {
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation));
      })) {
    std::swap(pure.error, compilation.error);
    return true;
  }
  zero::PlanOp plan = *copy->getOps<zero::PlanOp>().begin();
  pure.stage = static_cast<int>(plan.getStage());
  if (auto seconds = plan->getAttrOfType<mlir::FloatAttr>("predicted_seconds"))
    pure.seconds = seconds.getValueAsDouble();
  if (!compilation.schedule(*copy, OverlapOptions()))
    return false;
  mlir::FailureOr<PlanSimulation> simulation = buildPlanSimulation(*copy);
  if (mlir::failed(simulation))
    return false;
  std::optional<Simulation> result =
      simulate(simulation->problem, {}, compilation.error);
  if (result)
    pure.simulatedSeconds = result->seconds;
  return result.has_value();
}

double
poplar::getUncertainty(const ClusterView &cluster,
                       const std::vector<HybridCluster::Devices> &devices,
                       const std::string &fingerprint) {
  double uncertainty = 0;
  std::set<int> types;
  for (const HybridCluster::Devices &each : devices)
    for (int rank : each.ranks)
      types.insert(cluster.ranks[rank].type);
  for (int type : types) {
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

/// Those of one type.
static ClusterView takeType(const ClusterView &cluster, int type) {
  std::vector<int64_t> copies;
  for (const ClusterRank &rank : cluster.ranks)
    copies.push_back(rank.type == type);
  // Nodes of several devices have a link inside, as the cluster was verified.
  return *takeRanks(cluster, copies);
}

HybridFilter poplar::getFilter(const HybridRequest &args) {
  return [args](HybridProblem &problem) {
    problem.sharesAlike = !args.hypothetical;
    for (HybridProblem::DeviceType &type : problem.types)
      llvm::erase_if(type.modes, [&](const HybridProblem::Mode &mode) {
        return (args.mostTensorDegree > 0 &&
                mode.tensorDegree > args.mostTensorDegree) ||
               (!args.hypothetical && mode.tensorDegree > type.mostSharers);
      });
    if (args.stage != "auto")
      problem.zeroStages = {std::stoi(args.stage)};
  };
}

HybridSelection poplar::selectDevices(const ClusterView &cluster,
                                      const HybridModel &model,
                                      const HybridRequest &args,
                                      int64_t mostChoices) {
  return selectHybridDevices(
      cluster, model, args.globalBatch, getFilter(args), hybridEffort,
      args.mostChunks > 0 ? args.mostChunks : HybridProblem::mostChunks,
      mostChoices);
}

std::string
poplar::explainRefusal(const std::vector<std::vector<StageDevices>> &stages) {
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (auto [type, degree] : stages[stage]) {
      std::string reason = explainUnbuildableStage(*type, degree);
      if (reason.empty() && degree != stages[stage].front().tensorDegree)
        reason = "unlike numbers of devices share the units of stage " +
                 std::to_string(stage) +
                 ", which is not generated yet: all pipelines share them alike";
      if (!reason.empty())
        return reason;
    }
  return "";
}

static std::string explainPlan(const ClusterView &cluster,
                               const HybridReport &report) {
  const HybridPlan &plan = *report.search.plan;
  std::vector<std::vector<StageDevices>> stages(plan.groups.size());
  for (const HybridPlan::Lane &lane : plan.lanes)
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      auto [type, mode] = lane.stages[stage];
      stages[stage].push_back(
          {&cluster.types[report.devices[type].type],
           report.problem.types[type].modes[mode].tensorDegree});
    }
  return explainRefusal(stages);
}

mlir::FailureOr<PipelineSimulation>
poplar::takeFastest(mlir::ModuleOp module, const ClusterView &cluster,
                    const HybridRequest &args, const HybridModel &model,
                    HybridSelection &selection) {
  const HybridProblem &problem = selection.cluster.problem;
  HybridChoice &choice = selection.choice;
  auto play = [&](const HybridPlan &plan) {
    std::vector<int64_t> pipelines;
    for (const HybridPlan::Lane &lane : plan.lanes)
      pipelines.push_back(lane.pipelines);
    HybridRanks ranks = assignRanks(problem, selection.cluster.devices, plan);
    return playStages(module, cluster, model,
                      makeStagePlan(problem, plan, ranks), pipelines,
                      args.bucketBytes, args.recordsTimeline);
  };
  mlir::FailureOr<PipelineSimulation> fastest = play(*choice.search.plan);
  for (const HybridPlan &other : choice.others) {
    mlir::FailureOr<PipelineSimulation> played = play(other);
    if (mlir::failed(fastest) || mlir::failed(played))
      return mlir::failure();
    if (played->seconds >= fastest->seconds)
      continue;
    fastest = std::move(played);
    choice.search.plan = other;
    choice.search.lowerBound =
        std::min(choice.bounds[other.chunks], other.seconds);
    // That bound is one of the devices that were chosen.
    selection.isExhaustive = false;
  }
  if (mlir::succeeded(fastest))
    choice.seconds = fastest->seconds;
  return fastest;
}

/// What of the types alone is reviewed; nothing of one without a plan. Fails
/// with a diagnostic.
static bool planTypesAlone(Compilation &compilation, const ClusterView &cluster,
                           const HybridRequest &args, HybridReport &report,
                           std::vector<HybridReview::Alone> &alone) {
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    ClusterView view = takeType(cluster, static_cast<int>(type));
    HybridSelection found =
        selectDevices(view, report.model, args, /*mostChoices=*/0);
    if (found.choice.search.plan && !args.hypothetical &&
        mlir::failed(takeFastest(compilation.getModule(), view, args,
                                 report.model, found)))
      return false;
    alone.push_back(reviewAlone(found.whole.problem, found.cluster.problem,
                                std::move(found.choice)));
    report.aloneNames.push_back(cluster.types[type].name);
  }
  return true;
}

/// Takes the best plan, simulated, of all choices of devices, and plans every
/// type alone.
static bool search(Compilation &compilation, const ClusterView &cluster,
                   const HybridRequest &args, HybridReport &report) {
  report.buildability.leftOut = args.leftOut;
  HybridSelection found =
      selectDevices(cluster, report.model, args, /*mostChoices=*/0);
  if (!found.choice.search.plan) {
    compilation.error = found.choice.search.error;
    return false;
  }
  if (args.hypothetical) {
    report.simulation = simulatePipeline(
        found.cluster.problem, *found.choice.search.plan, args.recordsTimeline);
  } else {
    mlir::FailureOr<PipelineSimulation> played = takeFastest(
        compilation.getModule(), cluster, args, report.model, found);
    if (mlir::failed(played))
      return false;
    report.simulation = std::move(*played);
    report.isPlayed = true;
  }
  report.search = std::move(found.choice.search);
  report.numDevices = cluster.ranks.size();
  report.triedAllDevices = found.isExhaustive;
  report.problem = std::move(found.cluster.problem);
  report.devices = std::move(found.cluster.devices);
  report.ranks =
      assignRanks(report.problem, report.devices, *report.search.plan);
  for (size_t type = 0; type < report.devices.size(); ++type) {
    const HybridProblem::DeviceType &own = report.problem.types[type];
    report.typeNames.push_back(
        own.parts.empty() ? cluster.types[report.devices[type].type].name
                          : own.name);
  }
  report.buildability.refusal = explainPlan(cluster, report);
  std::vector<HybridReview::Alone> alone;
  if (!planTypesAlone(compilation, cluster, args, report, alone))
    return false;
  report.review =
      reviewHybridPlan(found.whole.problem, report.problem, *report.search.plan,
                       report.simulation.seconds, std::move(alone));
  return true;
}

bool poplar::recordPlan(mlir::ModuleOp module, const ClusterView &cluster,
                        const StagePlan &plan, int64_t bucketBytes,
                        double predicted, double simulated) {
  mlir::FailureOr<zero::PlanOp> op =
      addStages(module, cluster, plan, bucketBytes);
  if (mlir::failed(op))
    return false;
  mlir::Builder builder(module);
  (*op)->setAttr(zero::kPredictedAttr, builder.getF64FloatAttr(predicted));
  (*op)->setAttr(zero::kSimulatedAttr, builder.getF64FloatAttr(simulated));
  return true;
}

bool poplar::readHybridModel(Compilation &compilation,
                             const HybridRequest &args, ClusterView &cluster,
                             HybridModel &model) {
  mlir::ModuleOp module = compilation.getModule();
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({args.bucketBytes}));
      }))
    return false;
  cluster = cluster::buildClusterView(module);
  mlir::FailureOr<HybridModel> found = getHybridModel(module, cluster);
  if (mlir::failed(found))
    return false;
  model = std::move(*found);
  return true;
}

bool poplar::planHybrid(Compilation &compilation, const HybridRequest &args,
                        HybridReport &report) {
  ClusterView cluster;
  if (!readHybridModel(compilation, args, cluster, report.model) ||
      !search(compilation, cluster, args, report))
    return false;
  report.uncertainty =
      getUncertainty(cluster, report.devices, report.model.fingerprint);
  return planZeroAlone(compilation, args, report.pure) &&
         (!args.addsPlan ||
          recordPlan(
              compilation.getModule(), cluster,
              makeStagePlan(report.problem, *report.search.plan, report.ranks),
              args.bucketBytes, report.search.plan->seconds,
              report.simulation.seconds));
}

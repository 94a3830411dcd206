//===- HybridPlan.cpp - poplar plan --policy hybrid -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HybridPlan.h"
#include "Output.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Planner/PlanSearch.h"
#include "Poplar/Target/HybridReport.h"
#include "Poplar/Target/ModelUnits.h"
#include "Poplar/Target/PlanSimulation.h"
#include "Poplar/Transforms/StagePlan.h"
#include "mlir/IR/Diagnostics.h"

using namespace poplar;

bool planZeroAlone(Compilation &compilation, const HybridArguments &args,
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
  if (!compilation.schedule(*copy, HostOptions()))
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

double getUncertainty(const ClusterView &cluster,
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

/// Those of one type.
static ClusterView takeType(const ClusterView &cluster, int type) {
  std::vector<int64_t> copies;
  for (const ClusterRank &rank : cluster.ranks)
    copies.push_back(rank.type == type);
  // Nodes of several devices have a link inside, as the cluster was verified.
  return *takeRanks(cluster, copies);
}

static HybridFilter getFilter(const HybridArguments &args) {
  return [args](HybridProblem &problem) {
    if (args.mostTensorDegree > 0)
      for (HybridProblem::DeviceType &type : problem.types)
        llvm::erase_if(type.modes, [&](const HybridProblem::Mode &mode) {
          return mode.tensorDegree > args.mostTensorDegree;
        });
    if (args.stage != "auto")
      problem.zeroStages = {std::stoi(args.stage)};
  };
}

HybridSelection selectDevices(const ClusterView &cluster,
                              const HybridModel &model,
                              const HybridArguments &args, int64_t mostChoices,
                              std::vector<UnbuildableDevices> &leftOut) {
  int mostChunks =
      args.mostChunks > 0 ? args.mostChunks : HybridProblem::mostChunks;
  if (args.hypothetical)
    return selectHybridDevices(cluster, model, args.globalBatch,
                               getFilter(args), hybridEffort, mostChunks,
                               mostChoices);
  return selectBuildableDevices(cluster, model, args.globalBatch,
                                getFilter(args), hybridEffort, mostChunks,
                                mostChoices, leftOut);
}

/// Why poplar build does not take the plan; empty if it does.
static std::string explainRefusal(const ClusterView &cluster,
                                  const HybridReport &report) {
  const DeviceType *first = nullptr;
  for (const HybridPlan::Lane &lane : report.search.plan->lanes)
    for (auto [type, mode] : lane.stages) {
      const DeviceType &device = cluster.types[report.devices[type].type];
      std::string reason = explainUnbuildableStage(
          device, report.problem.types[type].modes[mode].tensorDegree);
      if (reason.empty())
        reason = explainUnlikeNeighbours(first ? *first : device, device);
      if (!reason.empty())
        return reason;
      first = first ? first : &device;
    }
  return "";
}

/// Takes the best plan, simulated, of all choices of devices, and plans every
/// type alone.
static bool search(const ClusterView &cluster, const HybridArguments &args,
                   HybridReport &report, std::string &error) {
  report.buildability.leftOut = args.leftOut;
  HybridSelection found = selectDevices(cluster, report.model, args, 0,
                                        report.buildability.leftOut);
  report.search = std::move(found.choice.search);
  if (!report.search.plan) {
    error = report.search.error;
    return false;
  }
  std::vector<HybridReview::Alone> alone;
  std::vector<int> counts = cluster.countRanks();
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    std::vector<UnbuildableDevices> none;
    HybridSelection ofType = selectDevices(
        takeType(cluster, static_cast<int>(type)), report.model, args, 0, none);
    alone.push_back(reviewAlone(ofType.whole.problem, ofType.cluster.problem,
                                std::move(ofType.choice)));
    report.aloneNames.push_back(cluster.types[type].name);
  }
  report.numDevices = cluster.ranks.size();
  report.triedAllDevices = found.isExhaustive;
  report.problem = std::move(found.cluster.problem);
  report.devices = std::move(found.cluster.devices);
  for (const HybridCluster::Devices &devices : report.devices)
    report.typeNames.push_back(cluster.types[devices.type].name);
  report.buildability.refusal = explainRefusal(cluster, report);
  report.review = reviewHybridPlan(found.whole.problem, report.problem,
                                   *report.search.plan, std::move(alone));
  return true;
}

/// Adds the plan to the module as poplar build takes it. Returns what it has
/// that cannot be written, with the remedy; empty if nothing.
static std::string writePlan(Compilation &compilation,
                             const ClusterView &cluster,
                             const HybridReport &report, int64_t bucketBytes) {
  const HybridPlan &plan = *report.search.plan;
  if (plan.groups.size() < 2)
    return "the fastest hybrid plan has one stage: make it without --policy "
           "hybrid";
  StagePlan stages;
  stages.schedule = plan.schedule;
  stages.policy = "hybrid";
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    auto shares = sharePipelines(
        plan.lanes[lane].samples, plan.lanes[lane].pipelines,
        plan.getMicroBatch(report.problem, lane), plan.lanes.size() == 1);
    stages.shares.insert(stages.shares.end(), shares.begin(), shares.end());
  }
  std::vector<std::vector<HybridPlan::Range>> ranges =
      plan.cutUnits(report.problem);
  for (size_t j = 0; j < plan.groups.size(); ++j) {
    StagePlan::Group group;
    for (HybridPlan::Range units : ranges[j])
      group.units.insert(group.units.end(), {units.first, units.end});
    group.zeroStage = plan.groups[j].zeroStage;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      auto [type, index] = plan.lanes[lane].stages[j];
      const HybridProblem::Mode &mode = report.problem.types[type].modes[index];
      for (llvm::ArrayRef<int> rest = report.ranks[j][lane]; !rest.empty();
           rest = rest.drop_front(mode.tensorDegree)) {
        group.ranks.push_back(rest.take_front(mode.tensorDegree).vec());
        group.recompute.push_back(mode.recompute);
      }
    }
    stages.groups.push_back(std::move(group));
  }
  mlir::ModuleOp module = compilation.getModule();
  zero::PlanOp op = addStagePlan(module, cluster, stages);
  mlir::Builder builder(module);
  op->setAttr(zero::kPredictedAttr, builder.getF64FloatAttr(plan.seconds));
  op->setAttr(zero::kSimulatedAttr,
              builder.getF64FloatAttr(report.simulation.seconds));
  // Buckets do not cross the cuts of the plan.
  for (auto bucket :
       llvm::make_early_inc_range(module.getOps<zero::BucketOp>()))
    bucket.erase();
  if (!compilation.run(module, [&](mlir::OpPassManager &pm) {
        pm.addPass(createZeroFormBuckets({bucketBytes}));
      }))
    return compilation.error;
  return "";
}

bool readHybridModel(Compilation &compilation, const HybridArguments &args,
                     ClusterView &cluster, HybridModel &model) {
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

bool writePlanFiles(const HybridArguments &args, const std::string &json,
                    const Timeline &timeline, std::string &error) {
  for (auto [path, text] :
       {std::pair(args.json, json),
        std::pair(args.trace,
                  args.trace.empty()
                      ? ""
                      : formatChromeTrace(timeline,
                                          args.policy + " plan, simulated"))})
    if (!path.empty() && !writeFile(path, text, error))
      return false;
  return true;
}

bool planHybrid(Compilation &compilation, const HybridArguments &args) {
  ClusterView cluster;
  HybridReport report;
  if (!readHybridModel(compilation, args, cluster, report.model) ||
      !search(cluster, args, report, compilation.error))
    return false;
  report.simulation = simulatePipeline(report.problem, *report.search.plan,
                                       !args.trace.empty());
  report.uncertainty =
      getUncertainty(cluster, report.devices, report.model.fingerprint);
  assignRanks(report);
  if (!planZeroAlone(compilation, args, report.pure))
    return false;
  if (!args.output.empty()) {
    compilation.error =
        writePlan(compilation, cluster, report, args.bucketBytes);
    if (!compilation.error.empty() ||
        !writeFile(args.output, formatModule(compilation.getModule()),
                   compilation.error))
      return false;
  }
  if (!writePlanFiles(args, formatHybridJSON(report),
                      report.simulation.timeline, compilation.error))
    return false;
  if (args.json == "-" || args.trace == "-" || args.output == "-") {
    llvm::errs() << format(report.buildability);
    return true;
  }
  llvm::outs() << formatHybridText(report);
  if (!args.output.empty() && report.buildability.refusal.empty())
    printNext({"poplar", "build", args.output, "-o", "job"});
  return true;
}

//===- HybridSimulation.cpp - Plans of stages, played ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/HybridSimulation.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Simulation/PlanSimulation.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"

using namespace mlir;
using namespace poplar;

HybridRanks
poplar::assignRanks(const HybridProblem &problem,
                    const std::vector<HybridCluster::Devices> &devices,
                    const HybridPlan &plan) {
  std::vector<size_t> used(devices.size());
  HybridRanks ranks(plan.groups.size());
  for (size_t j = 0; j < plan.groups.size(); ++j)
    for (const HybridPlan::Lane &lane : plan.lanes) {
      auto [type, mode] = lane.stages[j];
      size_t count =
          lane.pipelines * problem.types[type].modes[mode].tensorDegree;
      auto first = devices[type].ranks.begin() + used[type];
      ranks[j].emplace_back(first, first + count);
      used[type] += count;
    }
  return ranks;
}

StagePlan poplar::makeStagePlan(const HybridProblem &problem,
                                const HybridPlan &plan,
                                const HybridRanks &ranks) {
  StagePlan stages;
  stages.schedule = plan.schedule;
  stages.policy = "hybrid";
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    auto shares = sharePipelines(
        plan.lanes[lane].samples, plan.lanes[lane].pipelines,
        plan.getMicroBatch(problem, lane), plan.lanes.size() == 1);
    stages.shares.insert(stages.shares.end(), shares.begin(), shares.end());
  }
  std::vector<std::vector<HybridPlan::Range>> ranges = plan.cutUnits(problem);
  for (size_t j = 0; j < plan.groups.size(); ++j) {
    StagePlan::Group group;
    for (HybridPlan::Range units : ranges[j])
      group.units.insert(group.units.end(), {units.first, units.end});
    group.zeroStage = plan.groups[j].zeroStage;
    group.parts = problem.types[plan.lanes[0].stages[j].type].parts;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      auto [type, index] = plan.lanes[lane].stages[j];
      const HybridProblem::Mode &mode = problem.types[type].modes[index];
      for (ArrayRef<int> rest = ranks[j][lane]; !rest.empty();
           rest = rest.drop_front(mode.tensorDegree)) {
        group.ranks.push_back(rest.take_front(mode.tensorDegree).vec());
        group.recompute.push_back(mode.recompute);
      }
    }
    stages.groups.push_back(std::move(group));
  }
  return stages;
}

/// The last pipeline's last micro-batch has what is left.
StagePlan poplar::makeStagePlan(const GeoCluster &geo, const GeoPlan &plan) {
  StagePlan stages;
  stages.schedule = plan.schedule;
  stages.policy = "geo";
  for (int64_t steps : plan.microBatches)
    stages.shares.push_back({geo.microBatch, steps, geo.microBatch});
  stages.shares.back().last -=
      geo.problem.microBatches * geo.microBatch - geo.globalBatch;
  std::vector<std::vector<int>> modes = plan.getModes(geo.problem);
  for (size_t j = 0; j < plan.stages.size(); ++j) {
    StagePlan::Group group;
    group.units = {plan.cuts[j], plan.cuts[j + 1]};
    group.zeroStage = 1;
    for (size_t k = 0; k < plan.pipelines(); ++k) {
      int device = plan.stages[j][k];
      const GeoProblem::Kind &kind =
          geo.problem.kinds[geo.problem.devices[device].kind];
      group.ranks.push_back(geo.ranks[device]);
      group.recompute.push_back(kind.modes[modes[j][k]].recompute);
    }
    stages.groups.push_back(std::move(group));
  }
  return stages;
}

FailureOr<zero::PlanOp> poplar::addStages(ModuleOp module,
                                          const ClusterView &cluster,
                                          const StagePlan &plan,
                                          int64_t bucketBytes) {
  zero::PlanOp op = addStagePlan(module, cluster, plan);
  for (auto bucket :
       llvm::make_early_inc_range(module.getOps<zero::BucketOp>()))
    bucket.erase();
  PassManager pm(module.getContext());
  pm.addPass(createZeroFormBuckets({bucketBytes}));
  // Without stages, times are those of whole programs.
  if (plan.groups.size() == 1)
    pm.addPass(createEstimateProfiles());
  if (failed(pm.run(module)))
    return failure();
  return op;
}

static PipelineSimulation summarize(const StagePlan &plan,
                                    ArrayRef<int64_t> pipelines,
                                    const PlanSimulation &played,
                                    Simulation &&simulation) {
  PipelineSimulation result;
  result.seconds = simulation.seconds;
  result.timeline = std::move(simulation.timeline);
  // Ranks of the plan are in the order of groups, lanes and pipelines. Those
  // that share units wait for each other: the first of them tells.
  std::vector<size_t> classes;
  for (auto [index, ranks] : llvm::enumerate(played.classes))
    for (int64_t rank : ranks.ranks) {
      classes.resize(std::max<size_t>(classes.size(), rank + 1));
      classes[rank] = index;
    }
  result.lanes.resize(pipelines.size());
  size_t rank = 0;
  for (const StagePlan::Group &group : plan.groups) {
    size_t pipeline = 0;
    for (auto [count, stages] : llvm::zip_equal(pipelines, result.lanes)) {
      const Simulation::ClassSeconds &seconds =
          simulation.classes[classes[rank]];
      stages.push_back({seconds.computing, seconds.waiting, seconds.exposed});
      for (int64_t i = 0; i < count; ++i)
        rank += group.ranks[pipeline++].size();
    }
  }
  return result;
}

FailureOr<PipelineSimulation>
poplar::playStages(ModuleOp module, const ClusterView &cluster,
                   const HybridModel &model, const StagePlan &plan,
                   ArrayRef<int64_t> pipelines, int64_t bucketBytes,
                   bool recordsTimeline) {
  OwningOpRef<ModuleOp> copy = module.clone();
  TimingScope untimed;
  BuildOptions options;
  options.bucketBytes = bucketBytes;
  FailureOr<zero::PlanOp> op = addStages(*copy, cluster, plan, bucketBytes);
  if (failed(op))
    return failure();
  bool hasGroups = !op->getGroups().empty();
  if (failed(schedulePrograms(*copy, options, untimed)))
    return failure();
  FailureOr<PlanSimulation> played = hasGroups
                                         ? buildStageSimulation(*copy, model)
                                         : buildPlanSimulation(*copy);
  if (failed(played))
    return failure();
  std::string error;
  std::optional<Simulation> simulation =
      simulate(played->problem, {1, recordsTimeline}, error);
  if (!simulation)
    return module.emitError("the plan cannot be simulated: ") << error;
  return summarize(plan, pipelines, *played, std::move(*simulation));
}

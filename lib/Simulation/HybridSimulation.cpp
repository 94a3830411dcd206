//===- HybridSimulation.cpp - Plans of stages, played ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Simulation/HybridSimulation.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
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

Plan poplar::writePlan(const ClusterView &cluster, const HybridProblem &problem,
                       const HybridPlan &plan, const HybridRanks &ranks) {
  std::vector<RankShare> shares;
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane)
    llvm::append_range(shares, sharePipelines(plan.lanes[lane].samples,
                                              plan.lanes[lane].pipelines,
                                              plan.getMicroBatch(problem, lane),
                                              plan.lanes.size() == 1));
  std::vector<StageRanks> stages;
  std::vector<std::vector<HybridPlan::Range>> ranges = plan.cutUnits(problem);
  for (size_t j = 0; j < plan.groups.size(); ++j) {
    StageRanks &stage = stages.emplace_back();
    for (HybridPlan::Range units : ranges[j])
      stage.units.insert(stage.units.end(), {units.first, units.end});
    stage.zeroStage = plan.groups[j].zeroStage;
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      auto [type, index] = plan.lanes[lane].stages[j];
      const HybridProblem::Mode &mode = problem.types[type].modes[index];
      if (mode.tensorDegree > 1)
        stage.parts = problem.types[type].parts;
      for (ArrayRef<int> rest = ranks[j][lane]; !rest.empty();
           rest = rest.drop_front(mode.tensorDegree)) {
        stage.ranks.push_back(rest.take_front(mode.tensorDegree).vec());
        stage.recompute.push_back(mode.recompute);
      }
    }
  }
  return writeStages(cluster, "hybrid", getPlanSchedule(plan.schedule), stages,
                     shares);
}

/// The last pipeline's last micro-batch has what is left.
Plan poplar::writePlan(const ClusterView &cluster, const GeoCluster &geo,
                       const GeoPlan &plan) {
  std::vector<RankShare> shares;
  for (int64_t steps : plan.microBatches)
    shares.push_back({geo.microBatch, steps, geo.microBatch});
  shares.back().last -=
      geo.problem.microBatches * geo.microBatch - geo.globalBatch;
  std::vector<std::vector<int>> modes = plan.getModes(geo.problem);
  std::vector<StageRanks> stages;
  for (size_t j = 0; j < plan.stages.size(); ++j) {
    StageRanks &stage = stages.emplace_back();
    stage.units = {plan.cuts[j], plan.cuts[j + 1]};
    stage.zeroStage = 1;
    for (size_t k = 0; k < plan.pipelines(); ++k) {
      int device = plan.stages[j][k];
      const GeoProblem::Kind &kind =
          geo.problem.kinds[geo.problem.devices[device].kind];
      stage.ranks.push_back(geo.ranks[device]);
      stage.recompute.push_back(kind.modes[modes[j][k]].recompute);
    }
  }
  return writeStages(cluster, "geo", getPlanSchedule(plan.schedule), stages,
                     shares);
}

LogicalResult poplar::addStages(ModuleOp module, const Plan &plan,
                                int64_t bucketBytes) {
  zero::addPlan(module, plan);
  for (auto bucket :
       llvm::make_early_inc_range(module.getOps<zero::BucketOp>()))
    bucket.erase();
  PassManager pm(module.getContext());
  pm.addPass(createZeroFormBuckets({bucketBytes}));
  // Then times are those of whole programs.
  if (plan.groups.size() == 1)
    pm.addPass(createEstimateProfiles());
  return pm.run(module);
}

static PipelineSimulation summarize(const Plan &plan,
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
  for (const Plan::Group &group : plan.groups) {
    size_t pipeline = 0;
    for (auto [count, stages] : llvm::zip_equal(pipelines, result.lanes)) {
      const Simulation::ClassSeconds &seconds =
          simulation.classes[classes[rank]];
      stages.push_back({seconds.computing, seconds.waiting, seconds.exposed});
      for (int64_t i = 0; i < count; ++i)
        rank += static_cast<size_t>(group.getTensorDegree(pipeline++));
    }
  }
  return result;
}

FailureOr<PipelineSimulation>
poplar::playStages(ModuleOp module, const HybridModel &model, const Plan &plan,
                   ArrayRef<int64_t> pipelines, int64_t bucketBytes,
                   bool recordsTimeline) {
  OwningOpRef<ModuleOp> copy = module.clone();
  BuildOptions options;
  options.bucketBytes = bucketBytes;
  if (failed(addStages(*copy, plan, bucketBytes)) ||
      failed(scheduleCandidate(*copy, options)))
    return failure();
  FailureOr<PlanSimulation> played = buildPlanSimulation(*copy, &model);
  if (failed(played))
    return failure();
  std::string error;
  std::optional<Simulation> simulation =
      simulate(played->problem, {1, recordsTimeline}, error);
  if (!simulation)
    return module.emitError("the plan cannot be simulated: ") << error;
  return summarize(plan, pipelines, *played, std::move(*simulation));
}

//===- Baselines.cpp - What else the devices could do ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Baselines.h"
#include "HybridSteps.h"
#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include "Poplar/Transforms/Plan/Buildable.h"

using namespace poplar;

/// By a policy of plans without pipelines; `baseline` says why there is none.
static void planByPolicy(Compilation &compilation, mlir::ModuleOp module,
                         int64_t globalBatch, const std::string &policy,
                         ReportBaseline &baseline) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  HeteroAllocateOptions allocation;
  allocation.globalBatch = globalBatch;
  allocation.policy = policy;
  allocation.simulate = true;
  if (!compilation.run(*copy, [&](mlir::OpPassManager &pm) {
        pm.addPass(createEstimateProfiles());
        pm.addPass(createHeteroAllocate(allocation));
      })) {
    // Without the place in the file.
    size_t begin = compilation.error.find("has no plan");
    baseline.error =
        compilation.error.substr(begin == std::string::npos ? 0 : begin);
    compilation.error.clear();
    return;
  }
  baseline.seconds =
      zero::readPlan(*copy->getOps<zero::PlanOp>().begin()).simulated;
}

/// Plans each device type alone by pipelines, where that is faster than without
/// them.
static bool planStagesAlone(Compilation &compilation, mlir::ModuleOp module,
                            const StagedRequest &request,
                            std::vector<ReportBaseline> &baselines) {
  ClusterView cluster = cluster::buildClusterView(module);
  mlir::FailureOr<HybridModel> model = getHybridModel(module, cluster);
  if (mlir::failed(model))
    return false;
  for (ReportBaseline &baseline : baselines) {
    if (baseline.policy != "alone")
      continue;
    std::optional<double> seconds;
    if (!planTypeAlone(module, cluster, *model, request,
                       *cluster.findType(baseline.deviceType), seconds))
      return false;
    if (seconds && (!baseline.seconds || *seconds < *baseline.seconds))
      baseline.seconds = seconds;
  }
  return true;
}

bool poplar::simulateBaselines(Compilation &compilation,
                               std::vector<ReportBaseline> &baselines) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = compilation.getModule().clone();
  auto written = *copy->getOps<zero::PlanOp>().begin();
  Plan plan = zero::readPlan(written);
  StagedRequest request;
  request.globalBatch = plan.globalBatch;
  request.hypothetical = !explainUnbuildable(*copy).empty();
  request.sharesFreely = request.hypothetical;
  written.erase();

  ClusterView cluster = cluster::buildClusterView(*copy);
  std::vector<int> counts = cluster.countRanks();
  int used = 0;
  for (int count : counts)
    used += count > 0;
  auto add = [&](const std::string &name, const std::string &type,
                 const std::string &policy) {
    ReportBaseline &baseline =
        baselines.emplace_back(ReportBaseline{name, type, std::nullopt, ""});
    planByPolicy(compilation, *copy, plan.globalBatch, policy, baseline);
  };
  add("uniform", "", "uniform");
  add("whale", "", "whale");
  bool hasStages = !plan.isWhole();
  if (hasStages)
    add("zero", "", "exact");
  for (size_t type = 0; type < counts.size() && used > 1; ++type)
    if (counts[type] > 0)
      add("alone", cluster.types[type].name,
          "homogeneous:" + cluster.types[type].name);
  return !hasStages || planStagesAlone(compilation, *copy, request, baselines);
}

//===- Simulated.cpp - The plan of a module, to be simulated --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Simulated.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Simulation/ModelUnits.h"
#include "Poplar/Simulation/Passes.h"
#include <set>

using namespace poplar;

static std::optional<PlanSimulation>
get(mlir::FailureOr<PlanSimulation> simulation) {
  if (mlir::failed(simulation))
    return std::nullopt;
  return std::move(*simulation);
}

/// Whether there is a profile of each type of a plan, whatever it recomputed.
static bool hasProfiles(zero::PlanOp plan) {
  std::set<std::string> types;
  for (auto profile :
       plan->getParentOfType<mlir::ModuleOp>().getOps<cluster::ProfileOp>())
    if (profile.getStage() == plan.getStage())
      types.insert(profile.getDeviceType().str());
  return llvm::all_of(plan.getRanks(), [&](zero::RankOp rank) {
    return types.count(rank.getDeviceType().str()) > 0;
  });
}

std::optional<PlanSimulation>
poplar::readSimulation(Compilation &compilation, mlir::ModuleOp module,
                       const OverlapOptions &options, const HybridModel *model,
                       bool isCandidate) {
  auto schedule = [&] {
    return isCandidate ? mlir::succeeded(scheduleCandidate(module, options))
                       : compilation.schedule(module, options);
  };
  auto plans = module.getOps<zero::PlanOp>();
  if (plans.empty() || zero::readPlan(*plans.begin()).isWhole()) {
    // What the plan recomputes may have no profile.
    if (!plans.empty() && hasProfiles(*plans.begin()) &&
        !compilation.run(module, [](mlir::OpPassManager &pm) {
          pm.addPass(createEstimateProfiles());
        }))
      return std::nullopt;
    if (!schedule())
      return std::nullopt;
    return get(buildPlanSimulation(module));
  }
  // Programs of stages have parts of the model only.
  mlir::FailureOr<HybridModel> own;
  if (!model) {
    own = getHybridModel(module, cluster::buildClusterView(module));
    if (mlir::failed(own))
      return std::nullopt;
    model = &*own;
  }
  if (!schedule())
    return std::nullopt;
  return get(buildPlanSimulation(module, model));
}

//===- GradientWires.cpp - What a given plan rounds between nodes ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LossyPlans.h"
#include "Poplar/Allocation/StagedAllocation.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"

using namespace mlir;
using namespace poplar;

FailureOr<LossyWires> poplar::chooseWires(ModuleOp module,
                                          int64_t bucketBytes) {
  OwningOpRef<ModuleOp> copy = module.clone();
  zero::PlanOp op = *copy->getOps<zero::PlanOp>().begin();
  Plan plan = zero::readPlan(op);
  std::vector<int64_t> pipelines(plan.getPipelinesOf(0).size(), 1);
  op.erase();
  ClusterView cluster = cluster::buildClusterView(*copy);
  FailureOr<HybridModel> model = getHybridModel(*copy, cluster);
  if (failed(model))
    return failure();
  std::vector<LossyWires> choices = listGradientWires();
  choices.insert(choices.begin(), LossyWires());
  LossyWires best;
  double seconds = std::numeric_limits<double>::infinity();
  for (const LossyWires &wires : choices) {
    plan.wires = wires;
    FailureOr<PipelineSimulation> played =
        playStages(*copy, *model, plan, pipelines, bucketBytes,
                   /*recordsTimeline=*/false);
    if (failed(played))
      return failure();
    if (played->seconds >= seconds * (1 - leastLossyGain))
      continue;
    best = wires;
    seconds = played->seconds;
  }
  return best;
}

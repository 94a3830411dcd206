//===- PlanFacts.cpp - What the planner has to know of a module -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar;

ModelFacts zero::getModelFacts(ModuleOp module) {
  ModelFacts model;
  for (auto parameter : module.getOps<nn::ParameterOp>())
    model.elements +=
        cast<RankedTensorType>(parameter.getType()).getNumElements();
  model.fingerprint = nn::getFingerprint(module);
  SymbolTableCollection symbols;
  for (auto bucket : module.getOps<zero::BucketOp>()) {
    ++model.buckets;
    model.largestBucket =
        std::max(model.largestBucket,
                 zero::BucketLayout::get(bucket, symbols)->elements);
  }
  return model;
}

WrittenPlan zero::getWrittenPlan(PlanOp plan) {
  WrittenPlan written;
  written.stage = static_cast<int>(plan.getStage());
  written.globalBatch = static_cast<int64_t>(plan.getGlobalBatch());
  written.policy = plan.getPolicy().str();
  for (RankOp rank : plan.getRanks()) {
    RankShare share = {static_cast<int64_t>(rank.getMicroBatch()),
                       static_cast<int64_t>(rank.getSteps()),
                       static_cast<int64_t>(rank.getLast())};
    written.ranks.push_back({rank.getDeviceType().str(), rank.getNode().str(),
                             share, rank.getState().convertToDouble()});
  }
  return written;
}

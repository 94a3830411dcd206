//===- Review.cpp - The plan of a module, reviewed ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Driver/Review.h"
#include "Poplar/Dialect/Cluster/Cluster.h"
#include "Poplar/Dialect/Zero/PlanFacts.h"

using namespace poplar;

std::optional<ReviewedPlan> poplar::reviewModule(mlir::ModuleOp module,
                                                 std::string &error) {
  auto plans = module.getOps<zero::PlanOp>();
  if (plans.empty()) {
    error = "holds no zero.plan; make one with poplar plan -o";
    return std::nullopt;
  }
  ReviewedPlan reviewed;
  reviewed.cluster = cluster::buildClusterView(module);
  if (reviewed.cluster.ranks.empty()) {
    error = "holds a plan, but no cluster that it is for";
    return std::nullopt;
  }
  auto review = reviewPlan(reviewed.cluster, zero::getModelFacts(module),
                           zero::readPlan(*plans.begin()), error);
  if (!review) {
    error = "the plan cannot be explained: " + error;
    return std::nullopt;
  }
  reviewed.review = std::move(*review);
  return reviewed;
}

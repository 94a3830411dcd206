//===- Review.h - The plan of a module, reviewed ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_REVIEW_H
#define POPLAR_DRIVER_REVIEW_H

#include "Poplar/Planner/Zero/PlanReview.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

struct ReviewedPlan {
  ClusterView cluster;
  PlanReview review;
};

/// Reviews the plan of a module that holds one, with its model, cluster and
/// profiles. Fails, with `error` set, where one of them is missing or they do
/// not go together.
std::optional<ReviewedPlan> reviewModule(mlir::ModuleOp module,
                                         std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_REVIEW_H

//===- PlanFacts.h - What the planner has to know of a module ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_PLANFACTS_H
#define POPLAR_DIALECT_ZERO_PLANFACTS_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Plan/Plan.h"
#include "Poplar/Planner/Zero/ZeroProblem.h"

namespace poplar::zero {

/// Facts of the model in a module, and of its buckets and what a step does with
/// them where they have been formed.
ModelFacts getModelFacts(mlir::ModuleOp module);

/// Adds a plan to a module that holds its cluster. The only way in which plans
/// are written.
PlanOp addPlan(mlir::ModuleOp module, const Plan &plan);

/// What it lets collectives carry.
LossyWires getLossyWires(PlanOp op);

/// The plan that was written so, or by hand.
/// A plan without zero.group has one group, which computes the whole model.
Plan readPlan(PlanOp op);

/// The names of the ranks' programs, by rank: see ProgramInfo.
std::vector<std::string> getProgramNames(const Plan &plan);

/// The ranks that hold a bucket, ascending.
std::vector<int64_t> findHolders(const Plan &plan, BucketOp bucket);

/// What a rank keeps of a bucket's gradients that did not cross in a lossy
/// format, in f32 elements: of each slice that it sends to another node, and of
/// its own where sums are gathered. 0 where gradients are exact.
int64_t countResidual(const Plan &plan, const ProgramInfo &info,
                      BucketOp bucket, int64_t rank);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

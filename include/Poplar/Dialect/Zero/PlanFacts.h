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
Plan readPlan(PlanOp op);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

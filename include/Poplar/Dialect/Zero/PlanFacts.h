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

/// Facts of the model in a module and, where buckets have been formed, of these
/// and of what a step does with them.
ModelFacts getModelFacts(mlir::ModuleOp module);

/// Adds a plan to a module that holds its cluster. The only way in which plans
/// are written.
PlanOp addPlan(mlir::ModuleOp module, const Plan &plan);

/// The formats to which collectives of a plan may round.
LossyWires getLossyWires(PlanOp op);

/// Reads a plan that addPlan or a user has written.
Plan readPlan(PlanOp op);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

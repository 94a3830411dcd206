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
#include "Poplar/Planner/PlanReview.h"

namespace poplar::zero {

/// Of the model in a module, and of its buckets where they have been formed.
ModelFacts getModelFacts(mlir::ModuleOp module);

/// A plan as it is written.
WrittenPlan getWrittenPlan(PlanOp plan);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

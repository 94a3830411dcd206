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
#include "Poplar/Planner/Zero/PlanReview.h"

namespace poplar::zero {

/// Of the model in a module, and of its buckets and what a step does with them
/// where they have been formed.
ModelFacts getModelFacts(mlir::ModuleOp module);

/// Of a zero.plan: seconds of an iteration by the planner's closed form, and
/// simulated; and the plans that were simulated to find it, an array of
/// dictionaries with both and with what the plan is.
inline constexpr llvm::StringLiteral kPredictedAttr = "predicted_seconds",
                                     kSimulatedAttr = "simulated_seconds",
                                     kCandidatesAttr = "simulated_plans";

/// Writes what was simulated to find a plan.
void setCandidates(PlanOp plan,
                   const std::vector<WrittenPlan::Candidate> &candidates);

/// A plan as it is written.
WrittenPlan getWrittenPlan(PlanOp plan);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

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
/// Writes Plan::frontier.
void setFrontier(PlanOp op, const std::vector<Plan::Priced> &frontier);

/// The formats to which collectives of a plan may round.
LossyWires getLossyWires(PlanOp op);

/// Reads a plan that addPlan() or a user has written. Without zero.group, it
/// has one group, which computes the whole model.
Plan readPlan(PlanOp op);

/// The name of a rank's program and of the directory of its executable: the
/// device type, and the group and the position in it where there are several.
std::string getProgramName(const Plan &plan, int64_t rank, int64_t position);
/// The same by rank.
std::vector<std::string> getProgramNames(const Plan &plan);

/// The ranks that hold a bucket, ascending.
std::vector<int64_t> findHolders(const Plan &plan, BucketOp bucket);

/// The f32 elements in which a rank keeps what a lossy format has lost of a
/// bucket's gradients: of each slice that it sends to another node, and of its
/// own where sums are gathered. 0 where gradients are exact.
int64_t countResidual(const Plan &plan, const ProgramInfo &info,
                      BucketOp bucket, int64_t rank);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_PLANFACTS_H

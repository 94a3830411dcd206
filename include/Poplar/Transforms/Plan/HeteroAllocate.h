//===- HeteroAllocate.h - Allocation with a simulator -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_HETEROALLOCATE_H
#define POPLAR_TRANSFORMS_PLAN_HETEROALLOCATE_H

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include <functional>

namespace poplar {

/// Simulated seconds of an iteration of a plan for the model and the cluster of
/// `module`. Fails with a diagnostic.
using PlanSimulator = std::function<llvm::FailureOr<double>(
    mlir::ModuleOp module, const ClusterView &cluster,
    const PlanCandidate &plan)>;

/// --hetero-allocate, which writes the best plan by simulation of those that
/// are best by the closed form (shortlistPlans()).
std::unique_ptr<mlir::Pass> createHeteroAllocate(HeteroAllocateOptions options,
                                                 PlanSimulator simulator);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_HETEROALLOCATE_H

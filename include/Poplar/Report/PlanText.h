//===- PlanText.h - Plans for people ----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `poplar plan` prints of a plan as it is written in a module.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_REPORT_PLANTEXT_H
#define POPLAR_REPORT_PLANTEXT_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

/// "0 to 8", "0 to 3, 8 to 11": units of each chunk.
std::string formatUnits(zero::GroupOp group);

/// The plan, its groups, and a line for each run of ranks that differ in
/// nothing but their node.
std::string formatPlan(zero::PlanOp plan);

/// A line per device type of which the plan uses fewer devices than `cluster`
/// has.
std::string formatLeftOut(const ClusterView &cluster, zero::PlanOp plan);

/// A note for each device type whose measurements spread so much that plans
/// made from them cannot be trusted.
std::string formatNoise(const ClusterView &cluster);

/// peak_bytes(b) = fixed + b * per_sample of a planned program.
std::string formatMemory(mlir::ModuleOp program);

} // namespace poplar

#endif // POPLAR_REPORT_PLANTEXT_H

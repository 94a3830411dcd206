//===- HybridSimulation.h - Hybrid plans played -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A hybrid plan as `poplar build` takes it, and its simulation from the
// programs that are built of it: the same that `poplar simulate` plays.
// PipelineSimulation.h simulates from the costs of units instead, which is what
// a search has time for, and all there is where units are shared among devices.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_HYBRIDSIMULATION_H
#define POPLAR_SIMULATION_HYBRIDSIMULATION_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include "Poplar/Planner/Plan/Plan.h"
#include "Poplar/Target/Build.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// By group and lane, ranks of the cluster: those of a pipeline together.
using HybridRanks = std::vector<std::vector<std::vector<int>>>;

/// Stages take the devices of their types in the order of the cluster.
HybridRanks assignRanks(const HybridProblem &problem,
                        const std::vector<HybridCluster::Devices> &devices,
                        const HybridPlan &plan);

/// The plan as it is written, with `ranks` from assignRanks().
Plan writePlan(const ClusterView &cluster, const HybridProblem &problem,
               const HybridPlan &plan, const HybridRanks &ranks);
Plan writePlan(const ClusterView &cluster, const GeoCluster &geo,
               const GeoPlan &plan);

/// Adds the plan to `module`, which holds the model and the cluster, and forms
/// its buckets anew: they do not cross the cuts of the plan. A plan of one
/// stage has no groups. Fails with a diagnostic.
llvm::LogicalResult addStages(mlir::ModuleOp module, const Plan &plan,
                              int64_t bucketBytes);

/// Simulates the programs of the plan, in which no devices share units. Waiting
/// for a message or a collective that is under way counts as syncing. Lane l of
/// the result has the times of the first of `pipelines[l]` pipelines, which are
/// alike. Fails with a diagnostic. `module` is not changed.
llvm::FailureOr<PipelineSimulation>
playStages(mlir::ModuleOp module, const HybridModel &model, const Plan &plan,
           llvm::ArrayRef<int64_t> pipelines, int64_t bucketBytes,
           bool recordsTimeline = false);

} // namespace poplar

#endif // POPLAR_SIMULATION_HYBRIDSIMULATION_H

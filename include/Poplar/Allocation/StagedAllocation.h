//===- StagedAllocation.h - Plans of pipeline stages ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// The planners behind --hybrid-allocate and --geo-allocate, which `poplar plan`
// calls as well: the search (Planner/Pipeline, Planner/Geo), the simulation of
// the programs of its best plans, and the plan as poplar build takes it.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_ALLOCATION_STAGEDALLOCATION_H
#define POPLAR_ALLOCATION_STAGEDALLOCATION_H

#include "Poplar/Planner/Geo/GeoModel.h"
#include "Poplar/Planner/Pipeline/HybridSelection.h"
#include "Poplar/Simulation/HybridSimulation.h"

namespace poplar {

/// Leaves out what a request does not want.
HybridFilter getFilter(const HybridRequest &request);

/// The best plan of all choices of devices that takes less than `limit` by the
/// cost; of at most `mostChoices`, if that is not 0.
HybridSelection
selectDevices(const ClusterView &cluster, const HybridModel &model,
              const HybridRequest &request, int64_t mostChoices,
              double limit = std::numeric_limits<double>::infinity());

/// Plays the programs of all finalists of a selection, of which there is one at
/// least, and makes its choice the fastest. Adds what it finds to `report`, if
/// there is one. Fails with a diagnostic.
llvm::FailureOr<PipelineSimulation>
takeFastest(mlir::ModuleOp module, const ClusterView &cluster,
            const HybridRequest &request, const HybridModel &model,
            HybridSelection &selection,
            std::vector<PlayedFinalist> *report = nullptr);

/// Plans the model of `module`, which holds `cluster` and has buckets, and
/// whose units are `model` (getHybridModel()). Fails with a diagnostic, or with
/// `error` set where there is no plan.
llvm::LogicalResult findPlan(mlir::ModuleOp module, const ClusterView &cluster,
                             const HybridModel &model,
                             const HybridRequest &request, HybridResult &result,
                             std::string &error);
llvm::LogicalResult findPlan(mlir::ModuleOp module, const ClusterView &cluster,
                             const HybridModel &model,
                             const HybridRequest &request, GeoResult &result,
                             std::string &error);

/// Adds a plan to the module as poplar build takes it. Fails with a diagnostic.
llvm::LogicalResult addPlan(mlir::ModuleOp module, const ClusterView &cluster,
                            const HybridRequest &request,
                            const HybridResult &result);
llvm::LogicalResult addPlan(mlir::ModuleOp module, const ClusterView &cluster,
                            const HybridRequest &request,
                            const GeoResult &result);

/// What gradients of the module's plan, which somebody has made, should be
/// rounded to between nodes: nothing, unless the iteration becomes enough
/// shorter. Fails with a diagnostic.
llvm::FailureOr<LossyWires> chooseWires(mlir::ModuleOp module,
                                        int64_t bucketBytes);

} // namespace poplar

#endif // POPLAR_ALLOCATION_STAGEDALLOCATION_H

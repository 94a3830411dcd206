//===- ModelUnits.h - What the units of a model take ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From a model, and the programs that device types would compile, to the facts
// that hybrid plans are made from.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SIMULATION_MODELUNITS_H
#define POPLAR_SIMULATION_MODELUNITS_H

#include "Poplar/Planner/Cluster/RecomputedLayers.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// Cuts @model of `module` into units (ModelStages.h). Counts what they do on
/// each device type of `cluster` that has ranks, under every recomputation
/// policy. Fails with a diagnostic where there are no layers, or a program
/// cannot be made.
llvm::FailureOr<HybridModel> getHybridModel(mlir::ModuleOp module,
                                            const ClusterView &cluster);

/// By device type of `cluster`: what the layers of @model of `module` add and
/// save with recompute-unit, from which planners choose. Empty for types
/// without ranks, for those that are set to recompute in the whole model or
/// nowhere, for those that have no profile of another policy than one, and for
/// models without layers. Fails with a diagnostic where a program cannot be
/// made.
llvm::FailureOr<std::vector<std::vector<RecomputedLayers>>>
getRecomputedLayers(mlir::ModuleOp module, const ClusterView &cluster);

/// The same of one device type and policy, whatever it is set to.
llvm::FailureOr<RecomputedLayers>
getRecomputedLayers(mlir::ModuleOp module, const ClusterView &cluster, int type,
                    RecomputePolicy policy);

} // namespace poplar

#endif // POPLAR_SIMULATION_MODELUNITS_H

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

#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// Cuts @model of `module` into units (ModelStages.h). Counts what they do on
/// each device type of `cluster` that has ranks, under every recomputation
/// policy. Fails with a diagnostic where there are no layers, or a program
/// cannot be made.
llvm::FailureOr<HybridModel> getHybridModel(mlir::ModuleOp module,
                                            const ClusterView &cluster);

} // namespace poplar

#endif // POPLAR_SIMULATION_MODELUNITS_H

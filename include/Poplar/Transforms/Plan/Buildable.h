//===- Buildable.h - Clusters and plans that can be built -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Planner/Cluster/Buildable.h says of device types, for the cluster and
// the plan of a module.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_BUILDABLE_H
#define POPLAR_TRANSFORMS_PLAN_BUILDABLE_H

#include "Poplar/Planner/Cluster/Buildable.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// Erases the devices of the module's cluster that no program can be built for,
/// with nodes and links that are empty then. Returns them; none, with `error`
/// set and nothing erased, if no device would be left.
std::vector<UnbuildableDevices> dropUnbuildable(mlir::ModuleOp module,
                                                std::string &error);

/// Erases all devices of the module's cluster but the ranks `kept`, in
/// ascending order, with nodes and links that are empty then.
void keepRanks(mlir::ModuleOp module, llvm::ArrayRef<int> kept);

/// Why no program of the module's model can be built for a device type; empty
/// if one can.
std::string explainUnbuildable(mlir::ModuleOp module, const std::string &name,
                               const std::string &target,
                               NumberFormat precision);

/// What of the plan of `module` cannot be built; empty if nothing.
std::string explainUnbuildable(mlir::ModuleOp module);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_BUILDABLE_H

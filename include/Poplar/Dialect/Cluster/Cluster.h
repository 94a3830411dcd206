//===- Cluster.h - The cluster dialect --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_CLUSTER_CLUSTER_H
#define POPLAR_DIALECT_CLUSTER_CLUSTER_H

#include "Poplar/Dialect/Cluster/ClusterEnums.h"
#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Planner/Cluster/Targets.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"

#include "Poplar/Dialect/Cluster/ClusterDialect.h.inc"
#define GET_OP_CLASSES
#include "Poplar/Dialect/Cluster/ClusterOps.h.inc"

namespace poplar::cluster {

/// Limits on the devices of one node (and of one run `n x @type`) and of all.
inline constexpr int64_t kMaxDevicesPerNode = 65536;
inline constexpr int64_t kMaxRanks = int64_t(1) << 20;
/// The limit on bytes of one device: the sum over all ranks fits 63 bits.
inline constexpr int64_t kMaxBytes = int64_t(1) << 42;

/// What the cluster ops of a verified module say, for the planner. Without
/// nodes there are no ranks.
ClusterView buildClusterView(mlir::ModuleOp module);

} // namespace poplar::cluster

#endif // POPLAR_DIALECT_CLUSTER_CLUSTER_H

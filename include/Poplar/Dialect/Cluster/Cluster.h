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

/// Devices of one node (and of one run `n x @type`) and of all, at most.
inline constexpr int64_t kMaxDevicesPerNode = 65536;
inline constexpr int64_t kMaxRanks = int64_t(1) << 20;
/// Bytes of one device, at most: the sum over all ranks fits 63 bits.
inline constexpr int64_t kMaxBytes = int64_t(1) << 42;

/// An entry of the table of targets with its formats as the dialect has them,
/// the best first.
struct Target {
  llvm::StringRef name;
  const TargetInfo *info;
  llvm::SmallVector<NumberFormat> formats;
};

/// All of them, in the order in which messages list them.
llvm::ArrayRef<Target> getTargets();
/// Null if there is no target of this name.
const Target *findTarget(llvm::StringRef name);

/// What the cluster ops of a verified module say, for the planner. Without
/// nodes there are no ranks.
ClusterView buildClusterView(mlir::ModuleOp module);

} // namespace poplar::cluster

#endif // POPLAR_DIALECT_CLUSTER_CLUSTER_H

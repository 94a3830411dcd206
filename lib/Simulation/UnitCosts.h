//===- UnitCosts.h - How a step's time is cut into calls --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A profile says what forward and backward of a micro-step take together. The
// calls of a program share that in proportion to the roofline of their ops
// (Williams et al., CACM 2009): an op takes as long as its FLOPs, or as its
// bytes, whichever is longer.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_SIMULATION_UNITCOSTS_H
#define POPLAR_LIB_SIMULATION_UNITCOSTS_H

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Planner/Cluster/Cluster.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"

namespace poplar {

/// Costs of the units of one program on one device type.
class UnitCosts {
public:
  UnitCosts(mlir::ModuleOp program, const DeviceType &type);

  /// Work of a step of a function for `batch` samples, relative to that of
  /// other steps; 0 of what is no computation. Time grows with the callee's
  /// size the first time only.
  double getWork(mlir::Operation *op, int64_t batch);

private:
  const llvm::SmallVector<nn::OpCost> &getCosts(mlir::Operation *op);

  mlir::SymbolTable symbols;
  /// FLOPs in the time of a byte.
  double balance;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<nn::OpCost>> costs;
};

} // namespace poplar

#endif // POPLAR_LIB_SIMULATION_UNITCOSTS_H

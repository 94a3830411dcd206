//===- ModelStages.h - Units of a model, to cut it at -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is a call of the repeated block in @model; what is in front of all
// blocks is one more, and so is what is behind them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_MODELSTAGES_H
#define POPLAR_TRANSFORMS_PLAN_MODELSTAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallSet.h"

namespace poplar {

/// The value that `call`, of a run, takes from the call before it; null if it
/// is none of the run.
mlir::Value getTaken(mlir::func::CallOp call, mlir::func::CallOp previous);

/// The most calls of one unit in a row in @model, each of what the one before
/// returns.
llvm::SmallVector<mlir::func::CallOp> findLongestRun(mlir::func::FuncOp model);

/// Which unit every op of @model is of.
class ModelUnits {
public:
  ModelUnits() = default;
  /// Fails with a diagnostic where no block is repeated.
  static llvm::FailureOr<ModelUnits> get(mlir::func::FuncOp model);

  int64_t size() const { return count; }
  /// -1 of what depends on no unit: parameters, keys, constants.
  int64_t getUnit(mlir::Operation *op) const;
  /// The units that read a parameter, by its name.
  llvm::SmallSet<int64_t, 2> getReaders(mlir::StringAttr parameter) const {
    return readers.lookup(parameter);
  }

private:
  int64_t count = 0;
  llvm::DenseMap<mlir::Operation *, int64_t> units;
  llvm::DenseMap<mlir::StringAttr, llvm::SmallSet<int64_t, 2>> readers;
};

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_MODELSTAGES_H

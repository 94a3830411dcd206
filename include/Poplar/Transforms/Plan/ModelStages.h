//===- ModelStages.h - Units of a model, to cut it at -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A unit is the call of a layer in @model; what is in front of all layers is
// one more, and so is what is behind them. Layers of one kind are calls of one
// function. Kinds may follow each other in any order.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PLAN_MODELSTAGES_H
#define POPLAR_TRANSFORMS_PLAN_MODELSTAGES_H

#include "Poplar/Transforms/Model/Layers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallSet.h"

namespace poplar {

/// Which unit every op of @model is of.
class ModelUnits {
public:
  ModelUnits() = default;
  /// Fails with a diagnostic where there are no layers.
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

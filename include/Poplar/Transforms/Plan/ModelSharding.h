//===- ModelSharding.h - A device's part of units ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H
#define POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H

#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace poplar {

/// Rewrites @model and its units to what one of the devices that share them
/// computes (Dialect/NN/NNTensorParallel.h).
class ModelSharding {
public:
  ModelSharding(mlir::ModuleOp module, llvm::ArrayRef<int64_t> parts,
                int64_t position);

  /// Fails with a diagnostic where an op cannot be divided.
  llvm::LogicalResult run();

  /// What the device holds of each parameter, after run().
  const llvm::MapVector<mlir::StringAttr, nn::ParameterShare> &
  getShares() const {
    return shares;
  }

private:
  class Unit;
  struct Sharded {
    mlir::func::FuncOp function;
    llvm::SmallVector<nn::Layout> arguments, results;
    /// Shares of the arguments that are parameters; none for what is not read.
    llvm::SmallVector<nn::ParameterShare> parameters;
    /// Arguments that are there no more.
    llvm::BitVector dropped;
  };

  llvm::FailureOr<const Sharded *> shardUnit(mlir::func::CallOp call);
  llvm::LogicalResult shardCall(mlir::func::CallOp call);
  llvm::LogicalResult takeParameter(mlir::Value parameter,
                                    const nn::ParameterShare &share);
  std::optional<nn::Ranges> findSplit(mlir::func::CallOp call, unsigned index,
                                      const nn::UnitSharding &asking);
  std::optional<nn::Ranges> findSplitOfArgument(mlir::func::CallOp call,
                                                mlir::OpOperand &operand);
  llvm::SmallVector<int64_t> getTokenBounds(int64_t tokens) const {
    return group.divide(tokens);
  }
  mlir::Type getTokensType(mlir::Type type) const;

  mlir::ModuleOp module;
  nn::TensorGroup group;
  llvm::DenseMap<mlir::StringAttr, Sharded> units;
  /// Layouts of the values of @model that do not lie whole on every device.
  llvm::DenseMap<mlir::Value, nn::Layout> layouts;
  llvm::MapVector<mlir::StringAttr, nn::ParameterShare> shares;
  int64_t tokens = 0;
};

/// The name of a part of a parameter. Devices that share units in the same way
/// in all groups have the part of their position.
std::string getPartName(llvm::StringRef parameter, int64_t index);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H

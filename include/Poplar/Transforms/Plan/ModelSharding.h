//===- ModelSharding.h - A device's part of units ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H
#define POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace poplar {

/// Rewrites @model and its units to what one of the devices that share them
/// computes (Dialect/NN/NNTensorParallel.h).
///
/// Beside pipelines that share units there may be some in which one device
/// computes whole ones. It has to hold layers in the same parts, since the
/// columns of a matrix are no rows of it: its position is behind the others',
/// and it computes what all of them do, without exchanges:
///
///   %q = nn.linear %x, %q_part0       %q1 = nn.linear %x, %q_part1
///   ...                               ...
///   %o = nn.linear %a, %o_part0       %o1 = nn.linear %a1, %o_part1
///   %y = nn.add %o, %o1
class ModelSharding {
public:
  ModelSharding(mlir::ModuleOp module, llvm::ArrayRef<int64_t> parts,
                int64_t position);

  /// Fails with a diagnostic where an op cannot be divided.
  llvm::LogicalResult run();

  /// What the device holds of each parameter, after run(): one share, or one
  /// for each position.
  using Shares = llvm::SmallVector<nn::ParameterShare, 1>;
  const llvm::MapVector<mlir::StringAttr, Shares> &getShares() const {
    return shares;
  }
  /// The share that an op of @model reads.
  nn::ParameterShare getShare(nn::GetParameterOp get) const {
    return reads.lookup(get);
  }

private:
  class Unit;
  struct Sharded {
    /// A parameter's share of a position behind the first, an argument behind
    /// all others.
    struct Other {
      unsigned index;
      nn::ParameterShare share;
    };
    mlir::func::FuncOp function;
    llvm::SmallVector<nn::Layout> arguments, results;
    /// Shares of the arguments that are parameters; none for what is not read.
    llvm::SmallVector<nn::ParameterShare> parameters;
    llvm::SmallVector<Other> others;
    /// Arguments that are there no more.
    llvm::BitVector dropped;
  };

  llvm::FailureOr<const Sharded *> shardUnit(mlir::func::CallOp call);
  llvm::LogicalResult shardCall(mlir::func::CallOp call);
  llvm::LogicalResult takeParameter(nn::GetParameterOp get,
                                    const nn::ParameterShare &share);
  mlir::Value takeOther(nn::GetParameterOp get,
                        const nn::ParameterShare &share);
  std::optional<nn::Ranges> findSplit(mlir::func::CallOp call, unsigned index);
  std::optional<nn::Ranges> findSplitOfArgument(mlir::func::CallOp call,
                                                mlir::OpOperand &operand);
  bool joinsParts() const { return isJoining; }
  mlir::Type getTokensType(mlir::Type type) const;

  mlir::ModuleOp module;
  /// The positions that the device has: one, or all.
  bool isJoining;
  llvm::SmallVector<nn::TensorGroup, 1> groups;
  llvm::DenseMap<mlir::StringAttr, Sharded> units;
  /// Layouts of the values of @model that do not lie whole on every device.
  llvm::DenseMap<mlir::Value, nn::Layout> layouts;
  llvm::MapVector<mlir::StringAttr, Shares> shares;
  llvm::DenseMap<mlir::Operation *, nn::ParameterShare> reads;
  int64_t tokens = 0;
};

/// The name of a part of a parameter. Devices that share units in the same way
/// in all groups have the part of their position.
std::string getPartName(llvm::StringRef parameter, int64_t index);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_PLAN_MODELSHARDING_H

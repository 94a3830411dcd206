//===- DifferentiateUnit.h - Forward and backward of a unit -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_DIFFERENTIATEUNIT_H
#define POPLAR_TRANSFORMS_MODEL_DIFFERENTIATEUNIT_H

#include "Poplar/Dialect/Cluster/ClusterEnums.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SmallVector.h"

namespace poplar {

/// A unit, split in two. The signatures:
///
///   @f.forward(arguments of @f...) -> (results of @f..., residuals...)
///   @f.backward(residuals..., passedArguments..., cotangents of
///               cotangentResults..., running gradients of parameters...)
///     -> (cotangents of activations..., updated running gradients...)
struct DifferentiatedUnit {
  mlir::func::FuncOp forward, backward;
  /// Results of @f.forward that are passed to @f.backward. One that is a
  /// result of @f as well is not returned twice.
  llvm::SmallVector<unsigned> residuals;
  /// Arguments of @f that are passed to @f.backward.
  llvm::SmallVector<unsigned> passedArguments;
  /// Floating-point results of @f.
  llvm::SmallVector<unsigned> cotangentResults;
  /// Arguments of @f whose cotangents @f.backward returns.
  llvm::SmallVector<unsigned> activations;
  /// Arguments of @f that are trained parameters.
  llvm::SmallVector<unsigned> parameters;
};

/// How a unit is differentiated.
struct Differentiation {
  RecomputePolicy policy = RecomputePolicy::Keep;
  /// What is between the names of the unit and of its parts: ".recompute" where
  /// the same unit is differentiated with two policies.
  llvm::StringRef suffix;
  /// Arguments of the unit that are frozen parameters: they have no gradients.
  llvm::BitVector frozen;
  /// Pass all of these to @f.backward, also those that it does not read with
  /// this policy: programs with other policies gather the same parameters.
  bool passesFrozen = false;
};

/// Adds @f.forward and @f.backward after `unit`; fails with a diagnostic.
llvm::FailureOr<DifferentiatedUnit>
differentiateUnit(mlir::func::FuncOp unit, mlir::SymbolTable &symbols,
                  const Differentiation &how);

/// The result of a call of @f.backward that continues the running gradient
/// passed as `operand`; null if that is none.
mlir::Value getUpdatedGradient(mlir::OpOperand &operand,
                               mlir::SymbolTableCollection &symbols);

/// The running gradients in a function that calls such units, as read and as
/// units hand them on, with the name of the parameter.
llvm::DenseMap<mlir::Value, mlir::StringAttr>
findRunningGradients(mlir::func::FuncOp function,
                     mlir::SymbolTableCollection &symbols);

/// Erases the ops of `block` that nothing uses, in one backward sweep.
void eraseDeadOps(mlir::Block &block);
/// Erases private units that nothing refers to.
void eraseUnusedUnits(mlir::ModuleOp module);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_MODEL_DIFFERENTIATEUNIT_H

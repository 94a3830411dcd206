//===- TrainingStep.h - @train, @evaluate and @infer ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TRANSFORMS_MODEL_TRAININGSTEP_H
#define POPLAR_LIB_TRANSFORMS_MODEL_TRAININGSTEP_H

#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "llvm/ADT/DenseMap.h"

namespace poplar {

/// The units that @model calls, by the call: the calls of a unit may differ in
/// what they recompute.
using DifferentiatedUnits =
    llvm::DenseMap<mlir::Operation *, DifferentiatedUnit>;

/// Adds @train(ids, targets, keys[, positions], dloss) -> loss after `model`:
/// every unit's forward, then every unit's backward in reverse order, each
/// parameter's running gradient handed from one backward to the next. Where
/// `model` sends instead of returning a loss, neither do dloss and loss exist
/// here.
llvm::LogicalResult buildTrain(mlir::func::FuncOp model,
                               mlir::SymbolTable &symbols,
                               DifferentiatedUnits &units);

/// Adds @evaluate(ids, targets) -> loss and @infer(ids) -> logits after
/// `model`; where it takes positions, both take all its arguments. Units that
/// draw random numbers are called as clones,
/// @<unit>.inference, that do not.
/// @infer gives the logits of `model`, @evaluate the loss of `trained`, which
/// may be another form of it.
llvm::LogicalResult buildInference(mlir::func::FuncOp model,
                                   mlir::func::FuncOp trained,
                                   mlir::SymbolTable &symbols);

} // namespace poplar

#endif // POPLAR_LIB_TRANSFORMS_MODEL_TRAININGSTEP_H

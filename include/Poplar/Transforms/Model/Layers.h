//===- Layers.h - The layers of a model -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_LAYERS_H
#define POPLAR_TRANSFORMS_MODEL_LAYERS_H

#include "Poplar/Support/Recomputation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace poplar {

/// The activations that a layer takes: the first operand, and no parameter, of
/// the type of its only result. Null if `call` is no layer.
mlir::Value getTaken(mlir::func::CallOp call);

/// The layers of @model: the longest chain of calls each of which takes what
/// the one before returns, and returns the same type. Where calls of the chain
/// have an op that every layer has, it begins and ends with such calls: logits
/// may have the type of activations, but their unit is no layer.
llvm::SmallVector<mlir::func::CallOp> findLayers(mlir::func::FuncOp model);

/// Why a model of so many layers cannot recompute like this: it has fewer than
/// are to. "" if it can.
std::string explainTooManyLayers(const Recomputation &recompute,
                                 int64_t layers);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_MODEL_LAYERS_H

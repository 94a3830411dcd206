//===- FuseLoss.h - The loss and its logits in one unit ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TRANSFORMS_MODEL_FUSELOSS_H
#define POPLAR_LIB_TRANSFORMS_MODEL_FUSELOSS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

namespace poplar {

/// A copy of `model` whose loss is computed by the unit that makes the logits,
/// where these take more than `chunkBytes` a sample: they do not leave the
/// unit. The unit of the loss may say another number of bytes. `model` itself
/// where logits are smaller, or nobody else makes them.
mlir::func::FuncOp fuseLoss(mlir::func::FuncOp model,
                            mlir::SymbolTable &symbols, int64_t chunkBytes);

} // namespace poplar

#endif // POPLAR_LIB_TRANSFORMS_MODEL_FUSELOSS_H

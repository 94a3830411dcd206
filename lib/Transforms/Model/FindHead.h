//===- FindHead.h - The layer that makes the logits -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TRANSFORMS_MODEL_FINDHEAD_H
#define POPLAR_LIB_TRANSFORMS_MODEL_FINDHEAD_H

#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace poplar {

/// The linear layer that makes the logits, which the loss is given; null if
/// there is none.
/// The call of the unit that compares logits with targets, and which of its
/// operands the logits are.
struct LossCall {
  mlir::func::CallOp call;
  unsigned logits;

  mlir::Value getLogits() { return call.getOperand(logits); }
};
std::optional<LossCall> findLoss(mlir::func::FuncOp model,
                                 mlir::SymbolTable &symbols);

nn::LinearOp findHead(mlir::func::FuncOp model, mlir::SymbolTable &symbols);

/// Whether a product chooses experts, or weighs their biases: PEFT and
/// bitsandbytes do not count it as a linear layer.
bool isRouter(nn::LinearOp linear);

/// Whether weights of experts are quantised, which no fact of the model says.
bool hasQuantizedExperts(mlir::ModuleOp module);

} // namespace poplar

#endif // POPLAR_LIB_TRANSFORMS_MODEL_FINDHEAD_H

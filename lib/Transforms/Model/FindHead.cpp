//===- FindHead.cpp - The layer that makes the logits ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"

using namespace mlir;
using namespace poplar;

nn::LinearOp poplar::findHead(func::FuncOp model, SymbolTable &symbols) {
  Value logits;
  for (auto call : model.getOps<func::CallOp>())
    if (auto unit = symbols.lookup<func::FuncOp>(call.getCallee()))
      for (auto loss : unit.getOps<nn::CrossEntropyOp>())
        if (auto argument = dyn_cast<BlockArgument>(loss.getLogits()))
          logits = call.getOperand(argument.getArgNumber());
  auto maker = logits ? logits.getDefiningOp<func::CallOp>() : func::CallOp();
  if (!maker)
    return {};
  auto unit = symbols.lookup<func::FuncOp>(maker.getCallee());
  auto result = cast<OpResult>(logits).getResultNumber();
  Value value = unit.front().getTerminator()->getOperand(result);
  while (Operation *op = value.getDefiningOp()) {
    if (auto linear = dyn_cast<nn::LinearOp>(op))
      return linear;
    if (op->getNumOperands() == 0)
      return {};
    value = op->getOperand(0);
  }
  return {};
}

bool poplar::isRouter(nn::LinearOp linear) {
  return llvm::any_of(linear->getUsers(), llvm::IsaPred<nn::RouteOp>);
}

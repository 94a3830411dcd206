//===- FindHead.cpp - The layer that makes the logits ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"

using namespace mlir;
using namespace poplar;

/// What an op compares with targets, null if it is no loss.
static Value getLogits(Operation &op) {
  if (auto loss = dyn_cast<nn::CrossEntropyOp>(op))
    return loss.getLogits();
  if (auto shared = dyn_cast<zero::CrossEntropyOp>(op))
    return shared.getLogits();
  return {};
}

std::optional<LossCall> poplar::findLoss(func::FuncOp model,
                                         SymbolTable &symbols) {
  std::optional<LossCall> found;
  for (auto call : model.getOps<func::CallOp>()) {
    auto unit = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!unit || unit.isExternal())
      continue;
    for (Operation &op : unit.front())
      if (auto argument = dyn_cast_or_null<BlockArgument>(getLogits(op)))
        found = LossCall{call, argument.getArgNumber()};
  }
  return found;
}

nn::LinearOp poplar::findHead(func::FuncOp model, SymbolTable &symbols) {
  std::optional<LossCall> loss = findLoss(model, symbols);
  Value logits = loss ? loss->getLogits() : Value();
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
  return llvm::any_of(linear->getUsers(), llvm::IsaPred<nn::RouteOp>) ||
         linear.getX().getDefiningOp<nn::SpreadScoresOp>();
}

bool poplar::hasQuantizedExperts(ModuleOp module) {
  return module
      .walk([](nn::ExpertLinearOp linear) {
        return nn::isQuantized(linear.getWeights().front().getType())
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

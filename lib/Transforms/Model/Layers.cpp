//===- Layers.cpp - The layers of a model ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Model/Layers.h"
#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar;

Value poplar::getTaken(func::CallOp call) {
  if (call.getNumResults() != 1)
    return {};
  for (Value operand : call.getOperands())
    if (operand.getType() == call.getResult(0).getType() &&
        !operand.getDefiningOp<nn::GetParameterOp>())
      return operand;
  return {};
}

/// Whether a unit has an op that every layer has once.
static bool hasLayerOp(func::CallOp call) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  return unit && unit.walk([](nn::ModelFactsOpInterface op) {
                       return op.isOncePerLayer() ? WalkResult::interrupt()
                                                  : WalkResult::advance();
                     })
                     .wasInterrupted();
}

SmallVector<func::CallOp> poplar::findLayers(func::FuncOp model) {
  SmallVector<func::CallOp> chain, longest;
  for (auto call : model.getOps<func::CallOp>()) {
    Value taken = getTaken(call);
    if (!taken || (!chain.empty() &&
                   (taken != chain.back().getResult(0) || !taken.hasOneUse())))
      chain.clear();
    if (!taken)
      continue;
    chain.push_back(call);
    if (chain.size() > longest.size())
      longest = chain;
  }
  if (llvm::any_of(longest, hasLayerOp)) {
    while (!hasLayerOp(longest.back()))
      longest.pop_back();
    longest.erase(longest.begin(), llvm::find_if(longest, hasLayerOp));
  }
  return longest;
}

std::string poplar::explainTooManyLayers(const Recomputation &recompute,
                                         int64_t layers) {
  if (recompute.layers <= layers)
    return "";
  return toString(recompute) + " is for " + std::to_string(recompute.layers) +
         " layers, but the model has " + std::to_string(layers);
}

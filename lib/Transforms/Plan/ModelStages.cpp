//===- ModelStages.cpp - Units of a model, to cut it at -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Plan/ModelStages.h"
#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar;

FailureOr<ModelUnits> ModelUnits::get(func::FuncOp model) {
  SmallVector<func::CallOp> layers = findLayers(model);
  if (layers.empty())
    return model.emitError(
        "has no layers, between which it could be cut into stages: no unit "
        "that it calls returns activations of the type that it takes");
  ModelUnits result;
  result.count = int64_t(layers.size()) + 2;
  for (auto [index, call] : llvm::enumerate(layers))
    result.units[call] = int64_t(index) + 1;
  bool isBehind = false;
  for (Operation &op : model.front().without_terminator()) {
    isBehind |= &op == layers.front();
    if (isa<func::CallOp>(op)) {
      result.units.try_emplace(&op, isBehind ? result.count - 1 : 0);
      continue;
    }
    int64_t unit = -1;
    for (Value operand : op.getOperands())
      if (Operation *source = operand.getDefiningOp())
        unit = std::max(unit, result.getUnit(source));
    if (unit >= 0)
      result.units[&op] = unit;
  }
  for (auto get : model.getOps<nn::GetParameterOp>())
    for (Operation *user : get->getUsers())
      result.readers[get.getParameterAttr().getAttr()].insert(
          std::max<int64_t>(result.getUnit(user), 0));
  return result;
}

int64_t ModelUnits::getUnit(Operation *op) const {
  auto entry = units.find(op);
  return entry == units.end() ? -1 : entry->second;
}

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

Value poplar::getTaken(func::CallOp call, func::CallOp previous) {
  if (!previous || call.getCallee() != previous.getCallee() ||
      call.getNumResults() != 1 || !previous.getResult(0).hasOneUse() ||
      previous.getResult(0).getType() != call.getResult(0).getType() ||
      !llvm::is_contained(call.getOperands(), previous.getResult(0)))
    return {};
  return previous.getResult(0);
}

SmallVector<func::CallOp> poplar::findLongestRun(func::FuncOp model) {
  SmallVector<func::CallOp> run, longest;
  for (auto call : model.getOps<func::CallOp>()) {
    if (!run.empty() && !getTaken(call, run.back()))
      run.clear();
    run.push_back(call);
    if (run.size() > longest.size())
      longest = run;
  }
  return longest;
}

FailureOr<ModelUnits> ModelUnits::get(func::FuncOp model) {
  SmallVector<func::CallOp> run = findLongestRun(model);
  if (run.size() < 2)
    return model.emitError(
        "has no function that is called repeatedly, between whose calls it "
        "could be cut into stages: a plan of groups needs two layers of one "
        "kind in a row");
  ModelUnits result;
  result.count = int64_t(run.size()) + 2;
  for (auto [index, call] : llvm::enumerate(run))
    result.units[call] = int64_t(index) + 1;
  bool isBehind = false;
  for (Operation &op : model.front().without_terminator()) {
    isBehind |= &op == run.front();
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

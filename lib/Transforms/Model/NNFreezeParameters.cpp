//===- NNFreezeParameters.cpp - A part of the parameters is trained -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include <map>

namespace poplar {
#define GEN_PASS_DEF_NNFREEZEPARAMETERS
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {
struct NNFreezeParametersPass
    : public poplar::impl::NNFreezeParametersBase<NNFreezeParametersPass> {
  using Base::Base;
  void runOnOperation() override {
    if (failed(freeze()) || failed(divideUnits()))
      signalPassFailure();
  }

private:
  LogicalResult freeze();
  LogicalResult divideUnits();
};
} // namespace

LogicalResult NNFreezeParametersPass::freeze() {
  ModuleOp module = getOperation();
  if (nn::Model::of(module).getLoraRank())
    return module.emitError(
        "has adapters, beside which all other parameters are frozen");
  llvm::SetVector<StringRef> names;
  for (const std::string &name : trained)
    names.insert(name);
  if (names.empty())
    return module.emitError("there are no parameters to train: name some");
  for (auto parameter : module.getOps<nn::ParameterOp>())
    parameter.setFrozen(!names.remove(parameter.getSymName()));
  if (!names.empty())
    return module.emitError("no parameter to train is called '")
           << names.front() << "'";
  return success();
}

/// Which operands of a call are frozen parameters.
static std::vector<bool> findFrozen(func::CallOp call, SymbolTable &symbols) {
  std::vector<bool> frozen;
  for (Value operand : call.getOperands()) {
    auto get = operand.getDefiningOp<nn::GetParameterOp>();
    auto parameter = get ? symbols.lookup<nn::ParameterOp>(get.getParameter())
                         : nn::ParameterOp();
    frozen.push_back(parameter && parameter.getFrozen());
  }
  return frozen;
}

/// Gives calls of a unit that differ in what is frozen a copy of it each: a
/// unit is differentiated once.
LogicalResult NNFreezeParametersPass::divideUnits() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  auto model = nn::findEntry<func::FuncOp>(symbols, nn::Entry::Model);
  if (!model || model.isExternal())
    return module.emitError("has no function @model to train a part of");
  std::map<std::pair<Operation *, std::vector<bool>>, func::FuncOp> known;
  llvm::DenseSet<Operation *> seen;
  for (auto call : model.getOps<func::CallOp>()) {
    auto unit = symbols.lookup<func::FuncOp>(call.getCallee());
    if (!unit || !unit->hasAttr(nn::kUnitAttr))
      return call.emitOpError("expected a call of a unit");
    func::FuncOp &own = known[{unit, findFrozen(call, symbols)}];
    if (!own && seen.insert(unit).second) {
      own = unit;
    } else if (!own) {
      own = unit.clone();
      symbols.insert(own, std::next(unit->getIterator()));
    }
    call.setCallee(own.getSymName());
  }
  return success();
}

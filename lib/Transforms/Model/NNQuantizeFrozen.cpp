//===- NNQuantizeFrozen.cpp - Frozen weights in few bits -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace poplar {
#define GEN_PASS_DEF_NNQUANTIZEFROZEN
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class NNQuantizeFrozenPass
    : public poplar::impl::NNQuantizeFrozenBase<NNQuantizeFrozenPass> {
public:
  using Base::Base;
  void runOnOperation() override;

private:
  bool isWeight(BlockArgument argument);
  LogicalResult checkExperts(ModuleOp module);
  LogicalResult findUses(func::FuncOp model, SymbolTable &symbols);
  void chooseParameters();
  LogicalResult quantize(nn::QuantizedFormat kind);
  bool isChosen(nn::GetParameterOp get) const {
    return chosen.contains(get.getParameterAttr().getAttr());
  }

  /// What each parameter is in the units that are called with it, and by which
  /// reads.
  DenseMap<StringAttr, SmallVector<BlockArgument>> arguments;
  llvm::MapVector<BlockArgument, SmallVector<nn::GetParameterOp>> reads;
  nn::LinearOp head;
  /// The parameters to quantise.
  DenseSet<StringAttr> chosen;
};

} // namespace

/// Whether it is a weight of linear layers, but not of the head or a router, or
/// of experts if these are asked for, and nothing else.
bool NNQuantizeFrozenPass::isWeight(BlockArgument argument) {
  return llvm::all_of(argument.getUses(), [&](OpOperand &use) {
    if (isa<nn::ExpertLinearOp>(use.getOwner()))
      return experts.getValue();
    auto linear = dyn_cast<nn::LinearOp>(use.getOwner());
    return linear && linear != head && !isRouter(linear) &&
           &use == &linear.getWeightMutable();
  });
}

LogicalResult NNQuantizeFrozenPass::findUses(func::FuncOp model,
                                             SymbolTable &symbols) {
  for (auto get : model.getOps<nn::GetParameterOp>())
    for (OpOperand &use : get->getUses()) {
      auto call = dyn_cast<func::CallOp>(use.getOwner());
      auto unit = call ? symbols.lookup<func::FuncOp>(call.getCallee())
                       : func::FuncOp();
      if (!unit || unit.isExternal())
        return get.emitOpError("is not passed to a unit");
      BlockArgument argument = unit.getArgument(use.getOperandNumber());
      arguments[get.getParameterAttr().getAttr()].push_back(argument);
      reads[argument].push_back(get);
    }
  return success();
}

void NNQuantizeFrozenPass::chooseParameters() {
  chosen.clear();
  for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
    ArrayRef<BlockArgument> uses = arguments[parameter.getSymNameAttr()];
    if (parameter.getFrozen() && !uses.empty() &&
        !nn::isQuantized(parameter.getType()) &&
        llvm::all_of(uses, [&](BlockArgument use) { return isWeight(use); }))
      chosen.insert(parameter.getSymNameAttr());
  }
  // One program serves all calls of a unit.
  bool shrinks = true;
  while (std::exchange(shrinks, false))
    for (auto &[argument, gets] : reads)
      if (!llvm::all_of(gets,
                        [&](nn::GetParameterOp get) { return isChosen(get); }))
        for (nn::GetParameterOp get : gets)
          shrinks |= chosen.erase(get.getParameterAttr().getAttr());
}

/// Changes the types of the parameters, of what reads them and of the units
/// that take them.
LogicalResult NNQuantizeFrozenPass::quantize(nn::QuantizedFormat kind) {
  ModuleOp module = getOperation();
  Type element = nn::QuantizedType::get(&getContext(), kind);
  auto toQuantized = [&](Type type) {
    return cast<RankedTensorType>(type).clone(element);
  };
  DenseSet<Operation *> units;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    if (!chosen.contains(parameter.getSymNameAttr()))
      continue;
    parameter.setType(toQuantized(parameter.getType()));
    for (BlockArgument argument : arguments[parameter.getSymNameAttr()]) {
      units.insert(argument.getOwner()->getParentOp());
      if (!nn::isQuantized(argument.getType()))
        argument.setType(toQuantized(argument.getType()));
      for (OpOperand &use : argument.getUses())
        if (auto linear = dyn_cast<nn::LinearOp>(use.getOwner());
            linear && kind == nn::QuantizedFormat::Int8 &&
            linear.getLayout() == nn::WeightLayout::InOut)
          return linear.emitOpError("has a weight [in, out], but int8 needs "
                                    "rows that are outputs, for its scales: "
                                    "use nf4");
    }
  }
  for (auto &[argument, gets] : reads)
    for (nn::GetParameterOp get : gets)
      if (isChosen(get) && !nn::isQuantized(get.getType()))
        get.getValue().setType(toQuantized(get.getType()));
  for (auto unit : module.getOps<func::FuncOp>())
    if (units.contains(unit))
      unit.setFunctionType(
          FunctionType::get(&getContext(), unit.front().getArgumentTypes(),
                            unit.getFunctionType().getResults()));
  return success();
}

/// The model has experts, each with a matrix of its own.
LogicalResult NNQuantizeFrozenPass::checkExperts(ModuleOp module) {
  bool isFound = false;
  WalkResult result = module.walk([&](nn::ExpertLinearOp linear) {
    isFound = true;
    auto type = cast<RankedTensorType>(linear.getWeights().front().getType());
    if (type.getRank() != 3)
      return WalkResult::advance();
    linear.emitOpError("has the weights of all experts in one tensor, which "
                       "cannot be quantised yet: leave out --quantize-experts");
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  if (isFound)
    return success();
  return module.emitError("has no experts whose weights could be quantised: "
                          "leave out --quantize-experts");
}

void NNQuantizeFrozenPass::runOnOperation() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  arguments.clear();
  reads.clear();
  std::optional<nn::QuantizedFormat> kind =
      nn::symbolizeQuantizedFormat(format);
  if (!kind) {
    module.emitError("unknown format '")
        << format << "' of frozen weights (known: nf4, nf4_double, int8)";
    return signalPassFailure();
  }
  auto model = nn::findEntry<func::FuncOp>(symbols, nn::Entry::Model);
  if (!model || model.isExternal()) {
    module.emitError("has no function @model whose weights could be quantised");
    return signalPassFailure();
  }
  if (experts && failed(checkExperts(module)))
    return signalPassFailure();
  head = findHead(model, symbols);
  if (failed(findUses(model, symbols)))
    return signalPassFailure();

  chooseParameters();
  if (chosen.empty()) {
    module.emitError("has no frozen weights of linear layers to quantise");
    return signalPassFailure();
  }

  // The type of a part of a weight does not tell how the whole was rounded.
  nn::Model facts = nn::Model::of(module);
  if (!facts)
    facts = nn::Model(DictionaryAttr::get(&getContext()));
  facts.setFrozenFormat(format.getValue());
  facts.attachTo(module);

  if (failed(quantize(*kind)))
    signalPassFailure();
}

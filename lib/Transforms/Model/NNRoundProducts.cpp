//===- NNRoundProducts.cpp - Products of operands in 8 bits ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FindHead.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_NNROUNDPRODUCTS
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

struct NNRoundProductsPass
    : poplar::impl::NNRoundProductsBase<NNRoundProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(roundProducts()))
      signalPassFailure();
  }

private:
  LogicalResult roundProducts();
};

} // namespace

LogicalResult NNRoundProductsPass::roundProducts() {
  ModuleOp module = getOperation();
  SymbolTable symbols(module);
  auto model = nn::findEntry<func::FuncOp>(symbols, nn::Entry::Model);
  if (!model || model.isExternal())
    return module.emitError("has no function @model whose products could be "
                            "rounded");
  nn::LinearOp head = findHead(model, symbols);
  bool isAny = false;
  for (auto unit : module.getOps<func::FuncOp>())
    for (auto linear : unit.getOps<nn::LinearOp>()) {
      if (linear == head || isRouter(linear) ||
          !nn::fitsFP8(linear.getX(), linear.getResult()))
        continue;
      linear.setFp8(true);
      isAny = true;
    }
  if (!isAny)
    return module.emitError("has no linear layer whose inputs and outputs are "
                            "multiples of 16, as products in fp8 need: leave "
                            "out --fp8-products");
  nn::Model facts = nn::Model::of(module);
  if (!facts)
    facts = nn::Model(DictionaryAttr::get(&getContext()));
  facts.setFP8Products(true);
  facts.attachTo(module);
  return success();
}

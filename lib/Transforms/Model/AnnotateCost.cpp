//===- AnnotateCost.cpp - FLOPs of a training sample ----------------------===//
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
#include "llvm/Support/FormatVariadic.h"

namespace poplar {
#define GEN_PASS_DEF_ANNOTATECOST
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

StringRef stringifyOpClass(nn::OpClass opClass) {
  switch (opClass) {
  case nn::OpClass::Gemm:
    return "gemm";
  case nn::OpClass::Attention:
    return "attention";
  case nn::OpClass::Row:
    return "row";
  case nn::OpClass::Gather:
    return "gather";
  }
  llvm_unreachable("unknown class of op");
}

void remarkCost(nn::CostOpInterface op) {
  nn::OpCost cost = op.getCost();
  op->emitRemark() << llvm::formatv(
      "{0}: {1:f0} FLOPs and {2:f0} bytes per sample, {3:f0} bytes once",
      stringifyOpClass(cost.opClass), cost.flops, cost.bytes, cost.fixedBytes);
}

class AnnotateCostPass
    : public poplar::impl::AnnotateCostBase<AnnotateCostPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto model = nn::findEntry<func::FuncOp>(module, nn::Entry::Model);
    if (!model) {
      module.emitError("has no function @model");
      return signalPassFailure();
    }
    llvm::StringMap<double> unitFlops;
    double forward = 0;
    model.walk([&](func::CallOp call) {
      auto [entry, isNew] = unitFlops.try_emplace(call.getCallee(), 0.0);
      if (isNew)
        if (auto unit = module.lookupSymbol<func::FuncOp>(call.getCallee()))
          unit.walk([&, &flops = entry->second](nn::CostOpInterface op) {
            flops += op.getCost().flops;
          });
      forward += entry->second;
    });
    for (auto known :
         llvm::make_early_inc_range(module.getOps<nn::TrainingCostOp>()))
      known.erase();
    auto builder = OpBuilder::atBlockBegin(module.getBody());
    nn::TrainingCostOp::create(builder, module.getLoc(),
                               builder.getF64FloatAttr(3.0 * forward));
    if (report)
      module.walk([](nn::CostOpInterface op) { remarkCost(op); });
  }
};

} // namespace

//===- AddOptimizer.cpp - The optimizer's step ----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_ADDOPTIMIZER
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class AddOptimizerPass
    : public poplar::impl::AddOptimizerBase<AddOptimizerPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto flat =
        RankedTensorType::get({ShapedType::kDynamic}, builder.getF32Type());
    auto hyper = RankedTensorType::get({8}, builder.getF32Type());

    func::FuncOp adamw = addFunction(
        builder, "adamw", {flat, flat, flat, flat, hyper}, {flat, flat, flat});
    auto args = adamw.getArguments();
    auto step = nn::AdamWOp::create(builder, module.getLoc(),
                                    TypeRange{flat, flat, flat}, args[0],
                                    args[1], args[2], args[3], args[4]);
    func::ReturnOp::create(builder, module.getLoc(), step->getResults());

    // All working copies are of one type, unless they are quantised.
    Type working = builder.getF32Type();
    module.walk([&](nn::GetParameterOp op) {
      Type type =
          cast<RankedTensorType>(op.getValue().getType()).getElementType();
      if (!type.isF32() && !nn::isQuantized(type))
        working = type;
    });
    FlatSymbolRefAttr round;
    if (!working.isF32())
      round = addRounding(builder, working);
    builder.setInsertionPointToStart(module.getBody());
    exec::OptimizerOp::create(builder, module.getLoc(),
                              FlatSymbolRefAttr::get(adamw.getSymNameAttr()),
                              round);
  }

private:
  /// The function that makes working copies of masters.
  FlatSymbolRefAttr addRounding(OpBuilder &builder, Type working) {
    ModuleOp module = getOperation();
    builder.setInsertionPointToEnd(module.getBody());
    auto flat =
        RankedTensorType::get({ShapedType::kDynamic}, builder.getF32Type());
    auto rounded = RankedTensorType::get({ShapedType::kDynamic}, working);
    func::FuncOp convert =
        addFunction(builder, "convert_working", {flat}, {rounded});
    Value result = nn::CastOp::create(builder, module.getLoc(), rounded,
                                      convert.getArgument(0));
    func::ReturnOp::create(builder, module.getLoc(), result);
    return FlatSymbolRefAttr::get(convert.getSymNameAttr());
  }

  func::FuncOp addFunction(OpBuilder &builder, StringRef name,
                           TypeRange arguments, TypeRange results) {
    auto function =
        func::FuncOp::create(builder, builder.getUnknownLoc(), name,
                             builder.getFunctionType(arguments, results));
    builder.setInsertionPointToStart(function.addEntryBlock());
    return function;
  }
};

} // namespace

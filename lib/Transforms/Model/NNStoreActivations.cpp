//===- NNStoreActivations.cpp - Keep activations in a narrow format -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_NNSTOREACTIVATIONS
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class NNStoreActivationsPass
    : public poplar::impl::NNStoreActivationsBase<NNStoreActivationsPass> {
public:
  using Base::Base;
  void runOnOperation() override;
};

} // namespace

/// f32 [B, T, D]; what has two dimensions is a loss or a statistic.
static bool isActivation(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 3 && tensor.getElementType().isF32();
}

static Type narrow(Type type, Type element) {
  return isActivation(type) ? cast<RankedTensorType>(type).clone(element)
                            : type;
}

/// Casts on entry and on return.
static void convertUnit(func::FuncOp unit, Type element) {
  Block &body = unit.front();
  OpBuilder builder = OpBuilder::atBlockBegin(&body);
  for (BlockArgument argument : unit.getArguments()) {
    Type wide = argument.getType();
    if (!isActivation(wide) ||
        unit.getArgAttr(argument.getArgNumber(), nn::kParameterAttr))
      continue;
    argument.setType(narrow(wide, element));
    auto cast = nn::CastOp::create(builder, argument.getLoc(), wide, argument);
    argument.replaceAllUsesExcept(cast.getResult(), cast);
  }
  Operation *terminator = body.getTerminator();
  builder.setInsertionPoint(terminator);
  for (OpOperand &operand : terminator->getOpOperands())
    if (isActivation(operand.get().getType()))
      operand.set(nn::CastOp::create(builder, operand.get().getLoc(),
                                     narrow(operand.get().getType(), element),
                                     operand.get()));
  unit.setFunctionType(FunctionType::get(unit.getContext(),
                                         body.getArgumentTypes(),
                                         terminator->getOperandTypes()));
}

void NNStoreActivationsPass::runOnOperation() {
  ModuleOp module = getOperation();
  NumberFormat format = type;
  if (format == NumberFormat::TF32) {
    module.emitError("tf32 is not a storage format: use f32");
    return signalPassFailure();
  }
  FloatType element = zero::getFloatType(&getContext(), format);
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(nn::kUnitAttr) && !function.isExternal())
      convertUnit(function, element);
  // Callers take the types of what they call.
  WalkResult result = module.walk([&](func::CallOp call) {
    auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
    FunctionType wanted = callee.getFunctionType();
    for (auto [value, resultType] :
         llvm::zip_equal(call.getResults(), wanted.getResults()))
      value.setType(resultType);
    if (TypeRange(wanted.getInputs()) == call.getOperandTypes())
      return WalkResult::advance();
    call.emitOpError("passes an activation that is not the result of a unit: "
                     "move all other ops into units");
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return signalPassFailure();
  if (nn::Model model = nn::Model::of(module)) {
    model.setPrecision(toString(format));
    model.attachTo(module);
  }
}

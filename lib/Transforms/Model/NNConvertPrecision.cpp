//===- NNConvertPrecision.cpp - Number formats ----------------------------===//
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
#define GEN_PASS_DEF_NNCONVERTPRECISION
#include "Poplar/Transforms/Model/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

static bool isFloatTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor &&
         (tensor.getElementType().isF32() || tensor.getElementType().isBF16() ||
          tensor.getElementType().isF16());
}

static void setElement(Value value, Type element) {
  auto type = cast<RankedTensorType>(value.getType());
  value.setType(type.clone(element));
}

/// By the op's own rule, or else gives its first result the format of its first
/// float operand. Further results (statistics, log-sum-exps) are f32.
static LogicalResult convertOp(Operation *op, FloatType element) {
  if (auto own = dyn_cast<nn::PrecisionOpInterface>(op)) {
    own.convertPrecision(element);
    return success();
  }
  if (op->hasTrait<OpTrait::IsTerminator>())
    return success();
  bool hasFloats = llvm::any_of(op->getOperandTypes(), isFloatTensor) ||
                   llvm::any_of(op->getResultTypes(), isFloatTensor);
  if (!hasFloats)
    return success();
  auto source = llvm::find_if(op->getOperands(), [](Value operand) {
    return isFloatTensor(operand.getType());
  });
  // Messages between stages, say, have a float operand or a float result alone.
  if (!isa<nn::DifferentiableOpInterface>(op) ||
      source == op->getOperands().end() || op->getNumResults() == 0 ||
      !isFloatTensor(op->getResult(0).getType()))
    return op->emitOpError("has no rule for a change of precision");
  setElement(op->getResult(0),
             cast<RankedTensorType>((*source).getType()).getElementType());
  return success();
}

static void updateType(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  function.setFunctionType(FunctionType::get(
      function.getContext(), function.getBody().front().getArgumentTypes(),
      terminator->getOperandTypes()));
}

namespace {
struct NNConvertPrecisionPass
    : public poplar::impl::NNConvertPrecisionBase<NNConvertPrecisionPass> {
  using Base::Base;
  void runOnOperation() override;

private:
  LogicalResult convertFunction(func::FuncOp function, FloatType element,
                                const SymbolTable &symbols);
};
} // namespace

LogicalResult NNConvertPrecisionPass::convertFunction(
    func::FuncOp function, FloatType element, const SymbolTable &symbols) {
  if (!llvm::hasSingleElement(function.getBody()))
    return function.emitOpError("is not a single block");
  for (BlockArgument argument : function.getArguments()) {
    // What has two dimensions and is no parameter is per token, thus f32.
    bool parameter = function.getArgAttr(argument.getArgNumber(),
                                         nn::kParameterAttr) != nullptr;
    if (isFloatTensor(argument.getType()) &&
        (parameter ||
         cast<RankedTensorType>(argument.getType()).getRank() == 3))
      setElement(argument, element);
  }
  for (Operation &op : function.getBody().front()) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      auto callee = symbols.lookup<func::FuncOp>(call.getCallee());
      for (auto [result, type] : llvm::zip_equal(
               call.getResults(), callee.getFunctionType().getResults()))
        result.setType(type);
    } else if (failed(convertOp(&op, element))) {
      return failure();
    }
  }
  updateType(function);
  return success();
}

void NNConvertPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  Builder builder(&getContext());
  NumberFormat format = type;
  if (format == NumberFormat::TF32) {
    module.emitError("tf32 is not a storage format: use f32");
    return signalPassFailure();
  }
  FloatType element = zero::getFloatType(&getContext(), format);
  nn::Model model = nn::Model::of(module);
  if (model.getUnsafePrecision() == toString(format)) {
    module.emitError() << "activations of a "
                       << model.getArchitecture().value_or("this")
                       << " model overflow " << toString(format)
                       << ": use precision bf16 or f32";
    return signalPassFailure();
  }
  // Running gradients stay f32, which the code below does not know.
  auto differentiated = module.walk([](nn::GetGradientOp op) {
    op.emitOpError(
        "is made by --nn-differentiate: run --nn-convert-precision before it");
    return WalkResult::interrupt();
  });
  if (differentiated.wasInterrupted())
    return signalPassFailure();

  // Callers take the types of what they call.
  SmallVector<func::FuncOp> functions, callers;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      (function->hasAttr(nn::kUnitAttr) ? functions : callers)
          .push_back(function);
  functions.append(callers);
  const SymbolTable symbols(module);
  for (func::FuncOp function : functions)
    if (failed(convertFunction(function, element, symbols)))
      return signalPassFailure();

  if (!model)
    return;
  model.clearPrecision();
  if (!element.isF32())
    model.setPrecision(toString(format));
  model.attachTo(module);
}

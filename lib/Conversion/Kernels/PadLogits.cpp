//===- PadLogits.cpp - Rows of logits that begin aligned ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_PADLOGITS
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// Padded rows are a multiple of a cache line of GPUs.
static constexpr int64_t kLineBytes = 128;

/// A product of x with a weight [N,K] or [K,N] that can have padded rows of N
/// elements.
static bool isPlain(nn::LinearOp linear, nn::WeightLayout layout) {
  return linear.getLayout() == layout && !linear.getBias() &&
         !nn::isQuantized(linear.getWeight().getType());
}

namespace {
class LogitsPadder {
public:
  explicit LogitsPadder(ModuleOp module) : users(symbols, module) {}

  void run(nn::LinearOp linear);

private:
  /// What has to have the same type as `value`, which units hand to each other:
  /// logits and their gradient. None, with the reason in `obstacle`, if some op
  /// cannot read or make padded rows.
  std::optional<SetVector<Value>> findAlike(Value value, StringRef &obstacle);
  StringRef addMakers(Value value, SetVector<Value> &alike);
  StringRef addReader(OpOperand &use, SetVector<Value> &alike);

  SymbolTableCollection symbols;
  SymbolUserMap users;
};

class PadLogitsPass : public poplar::impl::PadLogitsBase<PadLogitsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    LogitsPadder padder(getOperation());
    getOperation().walk([&](nn::LinearOp linear) { padder.run(linear); });
  }
};
} // namespace

/// Calls `handle` with the calls of a unit; false if something else uses it.
static bool forEachCall(func::FuncOp unit, const SymbolUserMap &users,
                        function_ref<void(func::CallOp)> handle) {
  for (Operation *user : users.getUsers(unit)) {
    auto call = dyn_cast<func::CallOp>(user);
    if (!call)
      return false;
    handle(call);
  }
  return unit->hasAttr(nn::kUnitAttr);
}

/// Adds what `value` is another name of; returns what stands in the way.
StringRef LogitsPadder::addMakers(Value value, SetVector<Value> &alike) {
  constexpr StringLiteral outside = "its rows leave the units";
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto unit = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    bool isUnits = unit && forEachCall(unit, users, [&](func::CallOp call) {
                     alike.insert(call.getOperand(argument.getArgNumber()));
                   });
    return isUnits ? "" : outside;
  }
  Operation *op = value.getDefiningOp();
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto unit = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (!unit || unit.isExternal())
      return outside;
    alike.insert(unit.front().getTerminator()->getOperand(
        cast<OpResult>(value).getResultNumber()));
    return "";
  }
  if (auto grad = dyn_cast<nn::CrossEntropyGradOp>(op)) {
    alike.insert(grad.getLogits());
    return "";
  }
  auto linear = dyn_cast<nn::LinearOp>(op);
  return linear && isPlain(linear, nn::WeightLayout::OutIn)
             ? ""
             : "an op that is no plain product makes it";
}

StringRef LogitsPadder::addReader(OpOperand &use, SetVector<Value> &alike) {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto unit = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (!unit || unit.isExternal())
      return "a function without a body reads it";
    alike.insert(unit.getArgument(index));
    return "";
  }
  if (isa<func::ReturnOp>(op)) {
    auto unit = cast<func::FuncOp>(op->getParentOp());
    bool isUnits = forEachCall(unit, users, [&](func::CallOp call) {
      alike.insert(call.getResult(index));
    });
    return isUnits ? "" : "a step returns it";
  }
  if (auto grad = dyn_cast<nn::CrossEntropyGradOp>(op)) {
    alike.insert(grad.getResult());
    return "";
  }
  auto linear = dyn_cast<nn::LinearOp>(op);
  auto ofWeight = dyn_cast<nn::LinearGradWeightOp>(op);
  bool canRead =
      isa<nn::CrossEntropyOp, zero::CrossEntropyOp>(op) ||
      (linear && index == 0 && isPlain(linear, nn::WeightLayout::InOut)) ||
      (ofWeight && ofWeight.getDy() == use.get() &&
       ofWeight.getX() != use.get() &&
       ofWeight.getLayout() == nn::WeightLayout::OutIn);
  return canRead ? "" : "an op that takes dense rows reads it";
}

std::optional<SetVector<Value>> LogitsPadder::findAlike(Value value,
                                                        StringRef &obstacle) {
  SetVector<Value> alike;
  alike.insert(value);
  for (size_t next = 0; next < alike.size(); ++next) {
    Value known = alike[next];
    obstacle = addMakers(known, alike);
    for (OpOperand &use : known.getUses())
      if (obstacle.empty())
        obstacle = addReader(use, alike);
    if (!obstacle.empty())
      return std::nullopt;
  }
  return alike;
}

static void pad(const SetVector<Value> &alike) {
  SetVector<func::FuncOp> functions;
  for (Value value : alike) {
    auto type = cast<RankedTensorType>(value.getType());
    int64_t line = kLineBytes * 8 / type.getElementTypeBitWidth(),
            row = llvm::alignTo(type.getShape().back(), line);
    value.setType(
        RankedTensorType::get(type.getShape(), type.getElementType(),
                              exec::RowAttr::get(type.getContext(), row)));
    functions.insert(value.getParentRegion()->getParentOfType<func::FuncOp>());
  }
  for (func::FuncOp function : functions) {
    Block &body = function.front();
    function.setFunctionType(
        FunctionType::get(function.getContext(), body.getArgumentTypes(),
                          body.getTerminator()->getOperandTypes()));
  }
}

void LogitsPadder::run(nn::LinearOp linear) {
  auto type = cast<RankedTensorType>(linear.getType());
  int64_t bytes = type.getShape().back() * type.getElementTypeBitWidth() / 8;
  if (bytes % POPLAR_ROW_BYTES == 0 || exec::hasPaddedRows(type))
    return;
  StringRef obstacle;
  std::optional<SetVector<Value>> alike =
      findAlike(linear.getResult(), obstacle);
  auto options = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("pad-logits")
        .function(linear->getParentOfType<func::FuncOp>().getName());
  };
  if (!alike) {
    remark::missed(linear.getLoc(), options("RowsNotPadded"))
        << remark::metric("Columns", type.getShape().back())
        << remark::reason("{0}", obstacle);
    return;
  }
  pad(*alike);
  remark::passed(linear.getLoc(), options("RowsPadded"))
      << remark::metric("Columns", type.getShape().back())
      << remark::metric("Values", alike->size());
}

//===- ZeroSplitTurns.cpp - Forward and backward turns of a stage ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Other micro-batches may have their turn between the forward and the backward
// pass of one: what the backward pass reads of the forward pass is handed over
// as results of one function and arguments of another.
//
//===----------------------------------------------------------------------===//

#include "DifferentiateUnit.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROSPLITTURNS
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroSplitTurnsPass
    : public poplar::impl::ZeroSplitTurnsBase<ZeroSplitTurnsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!zero::ProgramInfo::get(module).isPipelineStage())
      return;
    auto train = module.lookupSymbol<func::FuncOp>("train");
    if (!train || train.isExternal()) {
      module.emitError("has no function @train: run --nn-differentiate first");
      return signalPassFailure();
    }
    split(train);
    for (StringRef name : {"evaluate", "infer"})
      if (auto function = module.lookupSymbol<func::FuncOp>(name))
        function->setAttr(zero::kTurnAttr, UnitAttr::get(&getContext()));
  }

private:
  void split(func::FuncOp train);
};

} // namespace

/// The ops that depend on the gradient of what the stage gives.
static llvm::SetVector<Operation *> findBackward(func::FuncOp train) {
  llvm::SetVector<Operation *> backward;
  BlockArgument seed;
  if (train.getNumArguments() > 3)
    seed = train.getArguments().back();
  for (Operation &op : train.front().without_terminator()) {
    auto receive = dyn_cast<zero::ReceiveOp>(op);
    bool begins = isa<nn::GetGradientOp>(op) ||
                  (receive && receive.getKind() == zero::MessageKind::Gradient);
    if (begins || llvm::any_of(op.getOperands(), [&](Value operand) {
          return operand == seed || backward.contains(operand.getDefiningOp());
        }))
      backward.insert(&op);
  }
  return backward;
}

void ZeroSplitTurnsPass::split(func::FuncOp train) {
  OpBuilder builder(train);
  Location loc = train.getLoc();
  llvm::SetVector<Operation *> backwardOps = findBackward(train);
  auto backward =
      func::FuncOp::create(builder, loc, "backward", train.getFunctionType());
  Block *body = backward.addEntryBlock();
  IRMapping mapping;
  mapping.map(train.getArguments(), body->getArguments());
  builder.setInsertionPointToStart(body);
  llvm::SetVector<Value> residuals;
  for (Operation *op : backwardOps) {
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source || backwardOps.contains(source) || mapping.contains(operand))
        continue;
      if (isa<nn::GetParameterOp, arith::ConstantOp>(source)) {
        builder.clone(*source, mapping);
        continue;
      }
      residuals.insert(operand);
      mapping.map(operand, body->addArgument(operand.getType(), loc));
    }
    builder.clone(*op, mapping);
  }
  func::ReturnOp::create(builder, loc);
  backward.setFunctionType(
      builder.getFunctionType(body->getArgumentTypes(), TypeRange()));

  // What remains is the forward pass.
  auto *end =
      cast<func::ReturnOp>(train.front().getTerminator()).getOperation();
  for (Operation *op : llvm::reverse(backwardOps))
    op->erase();
  eraseDeadOps(train.front());
  if (train.getNumArguments() > 3)
    (void)train.eraseArgument(3);
  unsigned first = body->getNumArguments() - residuals.size();
  SmallVector<DictionaryAttr> attributes(end->getNumOperands());
  int64_t next = 0;
  for (auto [index, residual] : llvm::enumerate(residuals)) {
    unsigned argument = first + index;
    // What is in a message's memory already stays there.
    bool isSent = llvm::any_of(residual.getUsers(), [](Operation *user) {
      return isa<zero::SendOp>(user);
    });
    if (isa<zero::ReceiveOp>(residual.getDefiningOp()) || isSent) {
      backward.setArgAttr(argument,
                          isSent ? zero::kSentAttr : zero::kReceivedAttr,
                          builder.getUnitAttr());
      continue;
    }
    NamedAttribute number = builder.getNamedAttr(
        zero::kResidualAttr, builder.getI64IntegerAttr(next++));
    backward.setArgAttr(argument, number.getName(), number.getValue());
    end->insertOperands(end->getNumOperands(), residual);
    attributes.push_back(builder.getDictionaryAttr(number));
  }
  train.setSymName("forward");
  train.setFunctionType(builder.getFunctionType(
      train.front().getArgumentTypes(), end->getOperandTypes()));
  train.setAllResultAttrs(attributes);
  for (func::FuncOp function : {train, backward})
    function->setAttr(zero::kTurnAttr, builder.getUnitAttr());
}

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
// as results of one function and arguments of another. So may other chunks of
// the group, which share nothing but parameters and their gradients.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Model/DifferentiateUnit.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROSPLITTURNS
#include "Poplar/Transforms/Zero/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// Arguments in front of the seed of the backward pass: ids, targets, keys and,
/// where documents share samples, positions.
static unsigned countInputs(func::FuncOp function) {
  return llvm::count_if(function.getArgumentTypes(), [](Type type) {
    return getElementTypeOrSelf(type).isInteger();
  });
}

namespace {

class ZeroSplitTurnsPass
    : public poplar::impl::ZeroSplitTurnsBase<ZeroSplitTurnsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    info = zero::ProgramInfo::get(module);
    if (!info.isPipelineStage())
      return;
    auto train = nn::findEntry<func::FuncOp>(module, nn::Entry::Train);
    if (!train || train.isExternal()) {
      module.emitError("has no function @train: run --nn-differentiate first");
      return signalPassFailure();
    }
    if (failed(splitTrain(train)))
      return signalPassFailure();
    for (nn::Entry entry : {nn::Entry::Evaluate, nn::Entry::Infer,
                            nn::Entry::Decode, nn::Entry::Prefill})
      if (auto function = nn::findEntry<func::FuncOp>(module, entry)) {
        for (int64_t chunk = 0; chunk < info.numChunks; ++chunk)
          addForward(function, entry, chunk, {});
        function.erase();
      }
  }

private:
  using BackwardOps = llvm::MapVector<Operation *, int64_t>;

  LogicalResult splitTrain(func::FuncOp train);
  BackwardOps findBackward(func::FuncOp train);
  FailureOr<func::FuncOp> addBackward(func::FuncOp train, int64_t chunk,
                                      const BackwardOps &backward,
                                      llvm::SetVector<Value> &residuals);
  func::FuncOp addForward(func::FuncOp from, nn::Entry pass, int64_t chunk,
                          ArrayRef<Value> residuals);
  func::FuncOp addTurn(func::FuncOp from, nn::Entry pass, int64_t chunk,
                       unsigned numArguments);
  /// The chunk that a message of the group is of.
  template <typename Message> int64_t getOwnChunk(Message message) {
    return info.getOwnChunk(message.getKind(), isa<zero::SendOp>(message),
                            message.getGroup(), message.getChunk());
  }

  zero::ProgramInfo info;
  /// The parameter of each running gradient in @train.
  DenseMap<Value, StringAttr> gradients;
  /// By chunk, from @train to its backward pass.
  std::vector<IRMapping> mappings;
};

} // namespace

/// The ops that depend on the gradient of what the stage gives, with the chunk
/// that they are of. Reads of gradients are of whichever chunk wants them.
ZeroSplitTurnsPass::BackwardOps
ZeroSplitTurnsPass::findBackward(func::FuncOp train) {
  BackwardOps backward;
  Value seed;
  if (train.getNumArguments() > countInputs(train))
    seed = train.getArguments().back();
  int64_t last = info.numChunks - 1;
  for (Operation &op : train.front().without_terminator()) {
    if (isa<nn::GetGradientOp>(op)) {
      backward[&op] = last;
      continue;
    }
    // A running gradient goes from the later chunks to the earlier ones.
    std::optional<int64_t> chunk;
    auto isOf = [&](int64_t other) {
      chunk = std::min(chunk.value_or(other), other);
    };
    if (auto receive = dyn_cast<zero::ReceiveOp>(op))
      if (receive.getKind() == zero::MessageKind::Gradient)
        isOf(getOwnChunk(receive));
    for (Value operand : op.getOperands()) {
      if (operand == seed)
        isOf(last);
      auto *source = backward.find(operand.getDefiningOp());
      if (source != backward.end())
        isOf(source->second);
    }
    if (chunk)
      backward[&op] = *chunk;
  }
  return backward;
}

/// An empty function with the first arguments of another.
func::FuncOp ZeroSplitTurnsPass::addTurn(func::FuncOp from, nn::Entry pass,
                                         int64_t chunk, unsigned numArguments) {
  OpBuilder builder(from);
  auto turn = func::FuncOp::create(
      builder, from.getLoc(), info.getTurnName(pass, chunk),
      builder.getFunctionType(
          from.getFunctionType().getInputs().take_front(numArguments),
          TypeRange()));
  turn.addEntryBlock();
  turn->setAttr(zero::kTurnAttr, builder.getI64IntegerAttr(chunk));
  if (Attribute tokens = from->getAttr(nn::kDecodingAttr))
    turn->setAttr(nn::kDecodingAttr, tokens);
  return turn;
}

FailureOr<func::FuncOp>
ZeroSplitTurnsPass::addBackward(func::FuncOp train, int64_t chunk,
                                const BackwardOps &backward,
                                llvm::SetVector<Value> &residuals) {
  bool hasLoss = chunk + 1 == info.numChunks;
  func::FuncOp turn =
      addTurn(train, nn::Entry::Backward, chunk,
              hasLoss ? train.getNumArguments() : countInputs(train));
  Block *body = &turn.front();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping &mapping = mappings[chunk];
  for (auto [from, to] : llvm::zip(train.getArguments(), body->getArguments()))
    mapping.map(from, to);
  for (auto [op, own] : backward) {
    if (own != chunk || isa<nn::GetGradientOp>(op))
      continue;
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      if (!source || mapping.contains(operand))
        continue;
      if (isa<nn::GetParameterOp, nn::GetGradientOp, arith::ConstantOp>(
              source)) {
        builder.clone(*source, mapping);
        continue;
      }
      const auto *other = backward.find(source);
      if (other == backward.end()) {
        residuals.insert(operand);
        mapping.map(operand,
                    body->addArgument(operand.getType(), op->getLoc()));
        continue;
      }
      // Another chunk's: it has added to the gradient before.
      StringAttr parameter = gradients.lookup(operand);
      if (!parameter) {
        InFlightDiagnostic diagnostic =
            op->emitOpError("reads what another chunk of the group computes "
                            "backward; only gradients of parameters can be "
                            "shared");
        diagnostic.attachNote(source->getLoc()) << "computed here";
        return diagnostic;
      }
      auto name = FlatSymbolRefAttr::get(parameter);
      mapping.map(operand, nn::GetGradientOp::create(builder, op->getLoc(),
                                                     operand.getType(), name)
                               .getValue());
      Value sum = mappings[other->second].lookup(operand);
      OpBuilder behind(&getContext());
      behind.setInsertionPointAfterValue(sum);
      nn::SetGradientOp::create(behind, source->getLoc(), name, sum);
    }
    builder.clone(*op, mapping);
  }
  func::ReturnOp::create(builder, train.getLoc());
  turn.setFunctionType(
      builder.getFunctionType(body->getArgumentTypes(), TypeRange()));
  return turn;
}

/// What a chunk sends or, the last one, returns, and `residuals`.
func::FuncOp ZeroSplitTurnsPass::addForward(func::FuncOp from, nn::Entry pass,
                                            int64_t chunk,
                                            ArrayRef<Value> residuals) {
  func::FuncOp turn = addTurn(from, pass, chunk, countInputs(from));
  SmallVector<Value> results;
  if (chunk + 1 == info.numChunks)
    llvm::append_range(results, from.front().getTerminator()->getOperands());
  llvm::append_range(results, residuals);

  llvm::SetVector<Operation *> needed;
  for (Operation &op : from.front()) {
    auto send = dyn_cast<zero::SendOp>(op);
    auto receive = dyn_cast<zero::ReceiveOp>(op);
    if ((send && send.getKind() == zero::MessageKind::Activation &&
         getOwnChunk(send) == chunk) ||
        (receive && receive.getKind() == zero::MessageKind::Activation &&
         getOwnChunk(receive) == chunk))
      needed.insert(&op);
  }
  for (Value result : results)
    if (Operation *source = result.getDefiningOp())
      needed.insert(source);
  for (size_t i = 0; i < needed.size(); ++i)
    for (Value operand : needed[i]->getOperands())
      if (Operation *source = operand.getDefiningOp())
        needed.insert(source);

  Block *body = &turn.front();
  OpBuilder builder = OpBuilder::atBlockEnd(body);
  IRMapping mapping;
  for (auto [old, argument] :
       llvm::zip(from.getArguments(), body->getArguments()))
    mapping.map(old, argument);
  for (Operation &op : from.front())
    if (needed.contains(&op))
      builder.clone(op, mapping);
  for (Value &result : results)
    result = mapping.lookup(result);
  func::ReturnOp::create(builder, from.getLoc(), results);
  turn.setFunctionType(builder.getFunctionType(body->getArgumentTypes(),
                                               ValueRange(results).getTypes()));
  return turn;
}

LogicalResult ZeroSplitTurnsPass::splitTrain(func::FuncOp train) {
  SymbolTableCollection symbols;
  gradients = findRunningGradients(train, symbols);
  mappings.assign(info.numChunks, IRMapping());
  BackwardOps backwardOps = findBackward(train);
  Builder builder(&getContext());
  // In the order in which gradients go through them.
  for (int64_t chunk = info.numChunks - 1; chunk >= 0; --chunk) {
    llvm::SetVector<Value> residuals;
    FailureOr<func::FuncOp> backward =
        addBackward(train, chunk, backwardOps, residuals);
    if (failed(backward))
      return failure();
    unsigned first = backward->getNumArguments() - residuals.size();
    SmallVector<Value> kept;
    for (auto [index, residual] : llvm::enumerate(residuals)) {
      // What is in a message's memory already stays there.
      bool isSent = llvm::any_of(residual.getUsers(), [](Operation *user) {
        return isa<zero::SendOp>(user);
      });
      if (isa<zero::ReceiveOp>(residual.getDefiningOp()) || isSent) {
        backward->setArgAttr(first + index,
                             isSent ? zero::kSentAttr : zero::kReceivedAttr,
                             builder.getUnitAttr());
        continue;
      }
      backward->setArgAttr(first + index, zero::kResidualAttr,
                           builder.getI64IntegerAttr(kept.size()));
      kept.push_back(residual);
    }
    func::FuncOp forward = addForward(train, nn::Entry::Forward, chunk, kept);
    first = forward.getNumResults() - kept.size();
    for (size_t i = 0; i < kept.size(); ++i)
      forward.setResultAttr(first + i, zero::kResidualAttr,
                            builder.getI64IntegerAttr(i));
  }
  train.erase();
  return success();
}

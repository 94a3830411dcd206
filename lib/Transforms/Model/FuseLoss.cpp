//===- FuseLoss.cpp - The loss and its logits in one unit -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FuseLoss.h"
#include "FindHead.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace poplar;

/// A unit that computes `head` and, from what it gives, `loss`. Its arguments
/// are those of both, but for the logits.
static func::FuncOp buildUnit(func::FuncOp head, func::FuncOp loss,
                              unsigned logits, int64_t chunkBytes) {
  OpBuilder builder(head.getContext());
  auto unit = func::FuncOp::create(
      loss.getLoc(), (head.getSymName() + "." + loss.getSymName()).str(),
      builder.getFunctionType({}, loss.getResultTypes()));
  unit.setPrivate();
  unit->setAttr(nn::kUnitAttr, builder.getUnitAttr());
  unit->setAttr(nn::kChunkBytesAttr, builder.getI64IntegerAttr(chunkBytes));
  Block *block = unit.addEntryBlock();
  builder.setInsertionPointToStart(block);
  IRMapping mapping;
  SmallVector<Attribute> attributes;
  auto addArgument = [&](func::FuncOp from, BlockArgument argument) {
    mapping.map(argument,
                block->addArgument(argument.getType(), argument.getLoc()));
    DictionaryAttr known = from.getArgAttrDict(argument.getArgNumber());
    attributes.push_back(known ? known : builder.getDictionaryAttr({}));
  };
  for (BlockArgument argument : head.getArguments())
    addArgument(head, argument);
  for (BlockArgument argument : loss.getArguments())
    if (argument.getArgNumber() != logits)
      addArgument(loss, argument);
  for (Operation &op : head.front().without_terminator())
    builder.clone(op, mapping);
  mapping.map(loss.getArgument(logits),
              mapping.lookup(head.front().getTerminator()->getOperand(0)));
  for (Operation &op : loss.front())
    builder.clone(op, mapping);
  unit.setFunctionType(builder.getFunctionType(block->getArgumentTypes(),
                                               loss.getResultTypes()));
  unit.setAllArgAttrs(attributes);
  return unit;
}

/// A unit of one block, which may be cloned into another.
static func::FuncOp findUnit(func::CallOp call, SymbolTable &symbols) {
  auto unit = symbols.lookup<func::FuncOp>(call.getCallee());
  return unit && unit->hasAttr(nn::kUnitAttr) && unit.getBody().hasOneBlock()
             ? unit
             : func::FuncOp();
}

func::FuncOp poplar::fuseLoss(func::FuncOp model, SymbolTable &symbols,
                              int64_t chunkBytes) {
  std::optional<LossCall> loss = findLoss(model, symbols);
  auto maker =
      loss ? loss->getLogits().getDefiningOp<func::CallOp>() : func::CallOp();
  if (!maker || maker.getNumResults() != 1 || !maker.getResult(0).hasOneUse())
    return model;
  func::FuncOp head = findUnit(maker, symbols),
               last = findUnit(loss->call, symbols);
  if (!head || !last)
    return model;
  chunkBytes = nn::getChunkBytes(last).value_or(chunkBytes);
  if (exec::getBufferSize(loss->getLogits().getType()).bytes <= chunkBytes)
    return model;

  func::FuncOp unit = buildUnit(head, last, loss->logits, chunkBytes);
  symbols.insert(unit, std::next(last->getIterator()));
  IRMapping mapping;
  auto fused = cast<func::FuncOp>(model->clone(mapping));
  symbols.insert(fused, std::next(model->getIterator()));
  auto copyOf = [&](func::CallOp call) {
    return cast<func::CallOp>(mapping.lookup(call.getOperation()));
  };
  func::CallOp logits = copyOf(maker), call = copyOf(loss->call);
  SmallVector<Value> operands(logits.getOperands());
  for (auto [index, operand] : llvm::enumerate(call.getOperands()))
    if (index != loss->logits)
      operands.push_back(operand);
  OpBuilder builder(call);
  call.replaceAllUsesWith(
      func::CallOp::create(builder, call.getLoc(), unit, operands));
  call.erase();
  logits.erase();
  return fused;
}

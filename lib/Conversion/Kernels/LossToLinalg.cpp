//===- LossToLinalg.cpp - Lower the loss and its gradient -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static Value isCounted(ElementBuilder &b, Value target) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, target, b.i32(0));
}

std::pair<Value, Value> poplar::reduceLogits(LinalgBuilder &l, Value logits) {
  Value max = l.reduceRows(
      {{logits, "btd"}}, -std::numeric_limits<double>::infinity(),
      [](ElementBuilder &b, ValueRange in, Value running) -> Value {
        return arith::MaximumFOp::create(b, running, in[0]);
      });
  Value sum = l.sumRows({{logits, "btd"}, {max, "bt"}},
                        [](ElementBuilder &b, ValueRange in) -> Value {
                          return math::ExpOp::create(b, b.sub(in[0], in[1]));
                        });
  return {max, sum};
}

/// The ranks' values of this rank's tokens, added in the order of the ranks.
static Value addParts(LinalgBuilder &l, Type type, ValueRange parts) {
  return l.mapElements(type, parts, [](ElementBuilder &b, ValueRange in) {
    Value sum = in.front();
    for (Value other : in.drop_front())
      sum = b.add(sum, other);
    return sum;
  });
}

static SmallVector<Value> lowerSumExchange(LinalgBuilder &l,
                                           zero::SumExchangeOp op) {
  return {addParts(l, op.getSum().getType(), op.getParts())};
}

static SmallVector<Value> lowerScatterTokens(LinalgBuilder &l,
                                             zero::ScatterTokensOp op) {
  SmallVector<Type> types(op.getBounds().size() - 1, op.getType());
  auto exchange = zero::ExchangeOp::create(l.rewriter, l.loc, types,
                                           zero::ExchangeKind::ScatterTokens,
                                           op.getPartial(), op.getBounds());
  return {addParts(l, op.getType(), exchange.getResults())};
}

static SmallVector<Value> lowerCrossEntropy(LinalgBuilder &l,
                                            CrossEntropyOp op) {
  Value logits = op.getLogits();
  auto [max, sum] = reduceLogits(l, logits);
  auto body = [=](ElementBuilder &b, ValueRange in,
                  ValueRange) -> SmallVector<Value> {
    Value target = in[2], counted = isCounted(b, target);
    Value lse = b.add(in[0], math::LogOp::create(b, in[1]));
    // Uncounted targets must not be read out of bounds.
    Value column = arith::IndexCastOp::create(
        b, b.getIndexType(),
        arith::SelectOp::create(b, counted, target, b.i32(0)));
    Value logit =
        b.toF32(b.extract(logits, {b.position(0), b.position(1), column}));
    Value loss =
        arith::SelectOp::create(b, counted, b.sub(lse, logit), b.f32(0.0));
    return {loss, lse};
  };
  auto shape = op.getLoss().getType().getShape();
  Value loss = l.empty(logits, shape, l.rewriter.getF32Type());
  Value lse = l.empty(logits, shape, l.rewriter.getF32Type());
  return llvm::to_vector(
      l.generic("bt", {{max, "bt"}, {sum, "bt"}, {op.getTargets(), "bt"}},
                {{loss, "bt"}, {lse, "bt"}}, body));
}

/// Every rank gives the log-sum-exp of its columns, and the target's logit if
/// it has it; all compute the same from what they get.
static SmallVector<Value> lowerSharedCrossEntropy(LinalgBuilder &l,
                                                  zero::CrossEntropyOp op) {
  Value logits = op.getLogits(), targets = op.getTargets();
  auto [max, sum] = reduceLogits(l, logits);
  auto first = int64_t(op.getFirstColumn());
  int64_t columns = cast<RankedTensorType>(logits.getType()).getDimSize(2);
  auto ofColumns = [=](ElementBuilder &b, ValueRange in,
                       ValueRange) -> SmallVector<Value> {
    Value lse = b.add(in[0], math::LogOp::create(b, in[1]));
    Value column = arith::IndexCastOp::create(b, b.getIndexType(), in[2]);
    column = arith::SubIOp::create(b, column, b.index(first));
    // Also of targets that are not counted, the index is huge.
    Value isHere = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column,
                                         b.index(columns));
    Value read = b.toF32(b.extract(
        logits, {b.position(0), b.position(1),
                 arith::SelectOp::create(b, isHere, column, b.index(0))}));
    return {lse, arith::SelectOp::create(b, isHere, read, b.f32(0.0))};
  };
  auto shape = cast<RankedTensorType>(op.getLoss().getType()).getShape();
  auto empty = [&] { return l.empty(logits, shape, l.rewriter.getF32Type()); };
  ValueRange mine = l.generic("bt", {{max, "bt"}, {sum, "bt"}, {targets, "bt"}},
                              {{empty(), "bt"}, {empty(), "bt"}}, ofColumns);
  size_t count = op.getBounds().size() - 1;
  SmallVector<Operand> inputs = {{targets, "bt"}};
  for (Value value : {mine[0], mine[1]}) {
    SmallVector<Type> types(count, value.getType());
    auto exchange = zero::ExchangeOp::create(l.rewriter, l.loc, types,
                                             zero::ExchangeKind::Collect, value,
                                             op.getBounds());
    for (Value result : exchange.getResults())
      inputs.push_back({result, "bt"});
  }
  auto ofAll = [=](ElementBuilder &b, ValueRange in,
                   ValueRange) -> SmallVector<Value> {
    ValueRange ofRanks = in.slice(1, count), picked = in.drop_front(1 + count);
    Value highest = ofRanks.front(), logit = picked.front();
    for (Value other : ofRanks.drop_front())
      highest = arith::MaximumFOp::create(b, highest, other);
    for (Value other : picked.drop_front())
      logit = b.add(logit, other);
    Value total;
    for (Value other : ofRanks) {
      Value part = math::ExpOp::create(b, b.sub(other, highest));
      total = total ? b.add(total, part) : part;
    }
    Value lse = b.add(highest, math::LogOp::create(b, total));
    Value loss = arith::SelectOp::create(b, isCounted(b, in[0]),
                                         b.sub(lse, logit), b.f32(0.0));
    return {loss, lse};
  };
  return llvm::to_vector(
      l.generic("bt", inputs, {{empty(), "bt"}, {empty(), "bt"}}, ofAll));
}

static SmallVector<Value> lowerCrossEntropyGrad(LinalgBuilder &l,
                                                CrossEntropyGradOp op) {
  auto first = int64_t(op.getFirstColumn().value_or(0));
  auto body = [=](ElementBuilder &b, ValueRange in) {
    Value target = in[1], zero = b.f32(0.0);
    Value scale = arith::SelectOp::create(b, isCounted(b, target), in[3], zero);
    Value p = math::ExpOp::create(b, b.sub(in[0], in[2]));
    Value column = arith::IndexCastOp::create(b, b.getI32Type(), b.position(2));
    if (first)
      column = arith::AddIOp::create(b, column, b.i32(first));
    Value isTarget =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, column, target);
    Value oneHot = arith::SelectOp::create(b, isTarget, b.f32(1.0), zero);
    return b.mul(scale, b.sub(p, oneHot));
  };
  return {l.map("btd", op.getType(),
                {{op.getLogits(), "btd"},
                 {op.getTargets(), "bt"},
                 {op.getLse(), "bt"},
                 {op.getDloss(), "bt"}},
                body)};
}

void poplar::attachLossLowerings(MLIRContext &context) {
  attachLowering<CrossEntropyOp, lowerCrossEntropy>(context);
  attachLowering<CrossEntropyGradOp, lowerCrossEntropyGrad>(context);
}

void poplar::attachTensorParallelLowerings(MLIRContext &context) {
  attachLowering<zero::SumExchangeOp, lowerSumExchange>(context);
  attachLowering<zero::ScatterTokensOp, lowerScatterTokens>(context);
  attachLowering<zero::CrossEntropyOp, lowerSharedCrossEntropy>(context);
}

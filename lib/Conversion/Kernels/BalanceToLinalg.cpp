//===- BalanceToLinalg.cpp - Lower the loss that balances experts ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static RankedTensorType getTensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t countColumns(Value value) {
  return getTensorType(value).getDimSize(2);
}

/// x[b,t,column - offset], and 0 where there is no such column.
static Value takeColumn(ElementBuilder &b, Value x, int64_t offset) {
  // Columns before the first wrap around to huge numbers.
  Value column = arith::SubIOp::create(b, b.position(2), b.index(offset));
  Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column,
                                         b.index(countColumns(x)));
  Value safe = arith::SelectOp::create(b, isInside, column, b.index(0));
  Value value = b.toF32(b.extract(x, {b.position(0), b.position(1), safe}));
  return arith::SelectOp::create(b, isInside, value, b.f32(0.0));
}

static SmallVector<Value> lowerJoin(LinalgBuilder &l, JoinOp op) {
  Value x = op.getX(), y = op.getY();
  return {mapPlaces(l, op.getType(), x, [=](ElementBuilder &b) -> Value {
    Value first = takeColumn(b, x, 0);
    if (!y)
      return first;
    Value isFirst = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ult, b.position(2), b.index(countColumns(x)));
    return arith::SelectOp::create(b, isFirst, first,
                                   takeColumn(b, y, countColumns(x)));
  })};
}

/// The expert that a column of sums is of, and whether the column counts it.
static std::pair<Value, Value> findExpert(ElementBuilder &b, int64_t experts) {
  Value column = b.position(2), count = b.index(experts);
  Value isCount =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column, count);
  Value other = arith::SubIOp::create(b, column, count);
  return {arith::SelectOp::create(b, isCount, column, other), isCount};
}

static Value divideExp(ElementBuilder &b, Value logit, Value max, Value sum) {
  return b.div(math::ExpOp::create(b, b.sub(logit, max)), sum);
}

static SmallVector<Value> lowerCountExperts(LinalgBuilder &l,
                                            CountExpertsOp op) {
  Value logits = op.getLogits(), chosen = op.getExperts();
  int64_t experts = countColumns(logits);
  int64_t topK =
      getTensorType(chosen).getDimSize(1) / getTensorType(logits).getDimSize(1);
  auto [max, sum] = reduceLogits(l, logits);
  auto body = [=](ElementBuilder &b, ValueRange in) -> Value {
    auto [expert, isCount] = findExpert(b, experts);
    Value number = arith::IndexCastOp::create(b, b.getI32Type(), expert);
    Value first = arith::MulIOp::create(b, b.position(1), b.index(topK)), count;
    for (int64_t slot = 0; slot < topK; ++slot) {
      Value place = arith::AddIOp::create(b, first, b.index(slot));
      Value isHere = arith::CmpIOp::create(
          b, arith::CmpIPredicate::eq,
          b.extract(chosen, {b.position(0), place}), number);
      count =
          count ? arith::OrIOp::create(b, count, isHere).getResult() : isHere;
    }
    Value logit =
        b.toF32(b.extract(logits, {b.position(0), b.position(1), expert}));
    Value counted = arith::SelectOp::create(b, count, b.f32(1.0), b.f32(0.0));
    return b.add(in[0],
                 arith::SelectOp::create(b, isCount, counted,
                                         divideExp(b, logit, in[1], in[2])));
  };
  return {l.map("btd", op.getType(),
                {{op.getSums(), "btd"}, {max, "bt"}, {sum, "bt"}}, body)};
}

/// p_e (d_e - sum_j p_j d_j), where d is the gradient of the probabilities p.
static SmallVector<Value> lowerCountExpertsGrad(LinalgBuilder &l,
                                                CountExpertsGradOp op) {
  Value logits = op.getLogits(), dsums = op.getDsums();
  int64_t experts = countColumns(logits);
  auto [max, sum] = reduceLogits(l, logits);
  auto ofExpert = [=](ElementBuilder &b) {
    Value column = arith::AddIOp::create(b, b.position(2), b.index(experts));
    return b.toF32(b.extract(dsums, {b.position(0), b.position(1), column}));
  };
  Value inner =
      l.sumRows({{logits, "btd"}, {max, "bt"}, {sum, "bt"}},
                [=](ElementBuilder &b, ValueRange in) {
                  return b.mul(divideExp(b, in[0], in[1], in[2]), ofExpert(b));
                });
  return {l.map("btd", op.getType(),
                {{logits, "btd"}, {max, "bt"}, {sum, "bt"}, {inner, "bt"}},
                [=](ElementBuilder &b, ValueRange in) {
                  return b.mul(divideExp(b, in[0], in[1], in[2]),
                               b.sub(ofExpert(b), in[3]));
                })};
}

//===----------------------------------------------------------------------===//
// Sums over the tokens of a sample
//===----------------------------------------------------------------------===//

static Value isAtLeast(ElementBuilder &b, Value target, int64_t least) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, target,
                               b.i32(least));
}

/// The value where the target is counted, and 0 where it is not.
static Value ifCounted(ElementBuilder &b, Value target, Value value) {
  return arith::SelectOp::create(b, isAtLeast(b, target, 0), value, b.f32(0.0));
}

/// Zeros [B,columns] for the samples of `like`.
static Value zeroSamples(LinalgBuilder &l, Value like, int64_t columns) {
  Value init = l.empty(like, {getTensorType(like).getDimSize(0), columns},
                       l.rewriter.getF32Type());
  Value zero = arith::ConstantOp::create(l.rewriter, l.loc,
                                         l.rewriter.getF32FloatAttr(0));
  return linalg::FillOp::create(l.rewriter, l.loc, zero, init).getResult(0);
}

/// The sum over the tokens of each sample [B,1] of what `body` gives. The first
/// operand is [B,T].
static Value sumTokens(LinalgBuilder &l, ArrayRef<Operand> inputs,
                       LinalgBuilder::MapBody body) {
  Value init = zeroSamples(l, inputs[0].value, 1);
  return l.generic("btD", inputs, {{init, "bt"}},
                   [&](ElementBuilder &b, ValueRange in, ValueRange out) {
                     return SmallVector<Value>{
                         b.accumulate(out[0], body(b, in))};
                   })[0];
}

/// The sums of the columns over a sample's tokens [B,2E], and 1 / n^2 [B,1].
static std::pair<Value, Value> sumSamples(LinalgBuilder &l, Value sums,
                                          Value targets) {
  Value init = zeroSamples(l, sums, countColumns(sums));
  Value all =
      l.generic("bTd", {{sums, "btd"}, {targets, "bt"}}, {{init, "bd"}},
                [&](ElementBuilder &b, ValueRange in, ValueRange out) {
                  Value value = arith::SelectOp::create(
                      b, isAtLeast(b, in[1], -1), in[0], b.f32(0.0));
                  return SmallVector<Value>{b.accumulate(out[0], value)};
                })[0];
  Value tokens =
      sumTokens(l, {{targets, "bd"}}, [](ElementBuilder &b, ValueRange in) {
        return arith::SelectOp::create(b, isAtLeast(b, in[0], -1), b.f32(1.0),
                                       b.f32(0.0))
            .getResult();
      });
  Value inverse = l.map("bt", tokens.getType(), {{tokens, "bt"}},
                        [](ElementBuilder &b, ValueRange in) {
                          Value least =
                              arith::MaximumFOp::create(b, in[0], b.f32(1.0));
                          return b.div(b.f32(1.0), b.mul(least, least));
                        });
  return {all, inverse};
}

static SmallVector<Value> lowerBalanceLoss(LinalgBuilder &l, BalanceLossOp op) {
  Value targets = op.getTargets();
  int64_t experts = countColumns(op.getSums()) / 2;
  double factor = op.getFactor().convertToDouble();
  auto [all, inverse] = sumSamples(l, op.getSums(), targets);
  // Only says how many columns are iterated, as in reduceRows.
  Value columns = tensor::EmptyOp::create(l.rewriter, l.loc, {experts},
                                          l.rewriter.getF32Type());
  Value products =
      sumTokens(l, {{all, "b0"}, {columns, "d"}},
                [&, all = all](ElementBuilder &b, ValueRange) {
                  Value sample = b.position(0), expert = b.position(2);
                  Value other =
                      arith::AddIOp::create(b, expert, b.index(experts));
                  return b.mul(b.extract(all, {sample, expert}),
                               b.extract(all, {sample, other}));
                });
  return {l.map("bt", op.getType(),
                {{op.getLoss(), "bt"},
                 {targets, "bt"},
                 {products, "b0"},
                 {inverse, "b0"}},
                [=](ElementBuilder &b, ValueRange in) {
                  Value added = b.mul(b.f32(factor), b.mul(in[2], in[3]));
                  return ifCounted(b, in[1], b.add(in[0], added));
                })};
}

static SmallVector<Value> lowerBalanceLossGrad(LinalgBuilder &l,
                                               BalanceLossGradOp op) {
  Value targets = op.getTargets();
  int64_t experts = countColumns(op.getSums()) / 2;
  double factor = op.getFactor().convertToDouble();
  auto [all, inverse] = sumSamples(l, op.getSums(), targets);
  auto takeCounted = [](ElementBuilder &b, ValueRange in) {
    return ifCounted(b, in[1], in[0]);
  };
  Value dresult = op.getDresult();
  Value dloss = l.map("bt", op.getDloss().getType(),
                      {{dresult, "bt"}, {targets, "bt"}}, takeCounted);
  Value scale = sumTokens(l, {{dresult, "bd"}, {targets, "bd"}}, takeCounted);
  auto body = [=, all = all](ElementBuilder &b, ValueRange in) -> Value {
    auto [expert, isCount] = findExpert(b, experts);
    Value gradient = b.mul(b.mul(b.f32(factor), b.mul(in[1], in[2])),
                           b.extract(all, {b.position(0), expert}));
    Value isToken = isAtLeast(b, in[0], -1);
    Value zero = b.f32(0.0);
    return arith::SelectOp::create(
        b, isCount, zero, arith::SelectOp::create(b, isToken, gradient, zero));
  };
  return {dloss,
          l.map("btd", op.getDsums().getType(),
                {{targets, "bt"}, {scale, "b0"}, {inverse, "b0"}}, body)};
}

void poplar::attachBalanceLowerings(MLIRContext &context) {
  attachLowering<JoinOp, lowerJoin>(context);
  attachLowering<CountExpertsOp, lowerCountExperts>(context);
  attachLowering<CountExpertsGradOp, lowerCountExpertsGrad>(context);
  attachLowering<BalanceLossOp, lowerBalanceLoss>(context);
  attachLowering<BalanceLossGradOp, lowerBalanceLossGrad>(context);
}

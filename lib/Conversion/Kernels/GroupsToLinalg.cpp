//===- GroupsToLinalg.cpp - Lower ops on groups of columns ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The rows of a token's experts are as heads of its row.
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static SmallVector<Value> lowerRegroup(LinalgBuilder &l, RegroupOp op) {
  Value x = op.getX();
  RankedTensorType type = op.getX().getType();
  auto groups = static_cast<int64_t>(op.getGroups());
  auto parts = static_cast<int64_t>(op.getParts());
  int64_t width = type.getDimSize(2) / groups / parts;
  Value init = l.empty(x, type.getShape(), type.getElementType());
  return {l.generic(
      "btd", {}, {{init, "btd"}},
      [=](ElementBuilder &b, ValueRange, ValueRange) {
        Value column = b.position(2), size = b.index(width);
        Value piece = arith::DivUIOp::create(b, column, size);
        Value group = arith::RemUIOp::create(b, piece, b.index(groups));
        Value part = arith::DivUIOp::create(b, piece, b.index(groups));
        Value source = arith::AddIOp::create(
            b, arith::MulIOp::create(b, group, b.index(parts)), part);
        Value from =
            arith::AddIOp::create(b, arith::MulIOp::create(b, source, size),
                                  arith::RemUIOp::create(b, column, size));
        return SmallVector<Value>{
            b.extract(x, {b.position(0), b.position(1), from})};
      })[0]};
}

/// The column that becomes `column`: parts of each group, as checkpoints have
/// them, become groups of each part, or with `inverse` the other way round.
static Value findSource(ElementBuilder &b, Value column, RegroupPartsOp op) {
  auto groups = static_cast<int64_t>(op.getGroups());
  int64_t size = 0, offset = 0;
  for (int64_t width : op.getWidths())
    size += width;
  auto plus = [&](Value value, int64_t number) -> Value {
    return arith::AddIOp::create(b, value, b.index(number));
  };
  auto times = [&](Value value, int64_t number) -> Value {
    return arith::MulIOp::create(b, value, b.index(number));
  };
  auto divide = [&](Value value, int64_t number) -> Value {
    return arith::DivUIOp::create(b, value, b.index(number));
  };
  auto modulo = [&](Value value, int64_t number) -> Value {
    return arith::RemUIOp::create(b, value, b.index(number));
  };
  Value place = op.getInverse() ? modulo(column, size) : column;
  Value source;
  for (int64_t width : op.getWidths()) {
    int64_t begin = op.getInverse() ? offset : offset * groups;
    Value from;
    if (op.getInverse()) {
      Value part = plus(times(divide(column, size), width), offset * groups);
      from = arith::AddIOp::create(b, part, plus(place, -begin));
    } else {
      Value within = plus(place, -begin);
      from = arith::AddIOp::create(b, times(divide(within, width), size),
                                   plus(modulo(within, width), offset));
    }
    // The last part that begins at or before the place has it.
    if (source) {
      Value isIn = arith::CmpIOp::create(b, arith::CmpIPredicate::uge, place,
                                         b.index(begin));
      from = arith::SelectOp::create(b, isIn, from, source);
    }
    source = from;
    offset += width;
  }
  return source;
}

static SmallVector<Value> lowerRegroupParts(LinalgBuilder &l,
                                            RegroupPartsOp op) {
  Value x = op.getX();
  RankedTensorType type = op.getX().getType();
  Value init = l.empty(x, type.getShape(), type.getElementType());
  return {l.generic("btd", {}, {{init, "btd"}},
                    [=](ElementBuilder &b, ValueRange, ValueRange) {
                      Value from = findSource(b, b.position(2), op);
                      return SmallVector<Value>{
                          b.extract(x, {b.position(0), b.position(1), from})};
                    })[0]};
}

static int64_t countExperts(Value x, Value scores) {
  return cast<RankedTensorType>(scores.getType()).getDimSize(1) /
         cast<RankedTensorType>(x.getType()).getDimSize(1);
}

static SmallVector<Value> lowerWeigh(LinalgBuilder &l, WeighOp op) {
  int64_t experts = countExperts(op.getX(), op.getScores());
  // Only says how many columns are iterated, as in reduceRows.
  int64_t width = op.getX().getType().getDimSize(2) / experts;
  Value columns = l.empty(op.getX(), {width}, l.rewriter.getF32Type());
  return {mapHeads(
      l, op.getX(), experts,
      {{op.getX(), "btd", 0, experts}, {op.getScores(), "bt"}, {columns, "d"}},
      [](ElementBuilder &b, ValueRange in) { return b.mul(in[0], in[1]); })};
}

static SmallVector<Value> lowerWeighGrad(LinalgBuilder &l, WeighGradOp op) {
  int64_t experts = countExperts(op.getX(), op.getDscores());
  return {l.sumRows(
      {{op.getDy(), "btd", 0, experts}, {op.getX(), "btd", 0, experts}},
      [](ElementBuilder &b, ValueRange in) { return b.mul(in[0], in[1]); })};
}

static SmallVector<Value> lowerScore(LinalgBuilder &l, ScoreOp op) {
  return {l.map(
      "bt", op.getType(), {{op.getLogits(), "bt0"}},
      [](ElementBuilder &b, ValueRange in) { return sigmoid(b, in[0]); })};
}

static SmallVector<Value> lowerScoreGrad(LinalgBuilder &l, ScoreGradOp op) {
  return {l.map("btd", op.getType(),
                {{op.getDscores(), "bt"}, {op.getScores(), "bt"}},
                [](ElementBuilder &b, ValueRange in) {
                  return sigmoidGrad(b, in[0], in[1]);
                })};
}

static SmallVector<Value> lowerExpertBias(LinalgBuilder &l, ExpertBiasOp op) {
  int64_t experts = countExperts(op.getX(), op.getExperts());
  Value bias = op.getBias();
  // Only says how many columns are iterated, as in lowerWeigh.
  Value columns = l.empty(op.getX(), {op.getBias().getType().getDimSize(1)},
                          l.rewriter.getF32Type());
  return {mapHeads(
      l, op.getX(), experts,
      {{op.getX(), "btd", 0, experts}, {op.getExperts(), "bt"}, {columns, "d"}},
      [=](ElementBuilder &b, ValueRange in) {
        Value expert = arith::IndexCastOp::create(b, b.getIndexType(), in[1]);
        return b.add(in[0], b.toF32(b.extract(bias, {expert, b.position(2)})));
      })};
}

static SmallVector<Value> lowerSpreadScores(LinalgBuilder &l,
                                            SpreadScoresOp op) {
  Value scores = op.getScores(), experts = op.getExperts();
  int64_t topK = countExperts(op.getResult(), experts);
  return {mapPlaces(l, op.getType(), scores, [=](ElementBuilder &b) {
    Value first =
        arith::MulIOp::create(b, b.position(1), b.index(topK)).getResult();
    Value own = arith::IndexCastOp::create(b, b.getI32Type(), b.position(2))
                    .getResult();
    Value spread = b.f32(0.0);
    for (int64_t slot = 0; slot < topK; ++slot) {
      Value at = arith::AddIOp::create(b, first, b.index(slot));
      Value isOwn =
          arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                b.extract(experts, {b.position(0), at}), own);
      spread = arith::SelectOp::create(
          b, isOwn, b.extract(scores, {b.position(0), at}), spread);
    }
    return spread;
  })};
}

static SmallVector<Value> lowerSpreadScoresGrad(LinalgBuilder &l,
                                                SpreadScoresGradOp op) {
  Value dy = op.getDy();
  int64_t topK = countExperts(dy, op.getExperts());
  return {l.map("bt", op.getType(), {{op.getExperts(), "bt"}},
                [=](ElementBuilder &b, ValueRange in) -> Value {
                  Value token =
                      arith::DivUIOp::create(b, b.position(1), b.index(topK));
                  Value expert =
                      arith::IndexCastOp::create(b, b.getIndexType(), in[0]);
                  return b.extract(dy, {b.position(0), token, expert});
                })};
}

namespace {
/// A gate and what it multiplies, kept within the limit, and whether they were.
struct GluPair {
  Value gate, up, isGateKept, isUpKept, sigmoid;

  /// Takes the columns from twice `column` on.
  GluPair(ElementBuilder &b, Value x, Value column, double alpha,
          double limit) {
    Value first = arith::MulIOp::create(b, column, b.index(2));
    auto read = [&](Value at) {
      return b.toF32(b.extract(x, {b.position(0), b.position(1), at}));
    };
    auto compare = [&](arith::CmpFPredicate how, Value value, double bound) {
      return arith::CmpFOp::create(b, how, value, b.f32(bound));
    };
    auto select = [&](Value condition, Value value, double otherwise) {
      return arith::SelectOp::create(b, condition, value, b.f32(otherwise));
    };
    gate = read(first);
    up = read(arith::AddIOp::create(b, first, b.index(1)));
    isGateKept = compare(arith::CmpFPredicate::ULE, gate, limit);
    Value isLow = compare(arith::CmpFPredicate::ULE, up, limit),
          isHigh = compare(arith::CmpFPredicate::UGE, up, -limit);
    isUpKept = arith::AndIOp::create(b, isLow, isHigh);
    gate = select(isGateKept, gate, limit);
    up = select(isHigh, select(isLow, up, limit), -limit);
    sigmoid = poplar::sigmoid(b, b.mul(gate, b.f32(alpha)));
  }
};
} // namespace

static SmallVector<Value> lowerClampedGlu(LinalgBuilder &l, ClampedGluOp op) {
  Value x = op.getX();
  double alpha = op.getAlpha().convertToDouble(),
         limit = op.getLimit().convertToDouble();
  return {mapPlaces(l, op.getType(), x, [=](ElementBuilder &b) {
    GluPair pair(b, x, b.position(2), alpha, limit);
    return b.mul(b.add(pair.up, b.f32(1.0)), b.mul(pair.gate, pair.sigmoid));
  })};
}

/// With s = sigmoid(alpha g), the gate's is (u + 1) s (1 + alpha g (1 - s)).
static SmallVector<Value> lowerClampedGluGrad(LinalgBuilder &l,
                                              ClampedGluGradOp op) {
  Value x = op.getX(), dy = op.getDy();
  double alpha = op.getAlpha().convertToDouble(),
         limit = op.getLimit().convertToDouble();
  return {mapPlaces(l, op.getType(), x, [=](ElementBuilder &b) -> Value {
    Value two = b.index(2), one = b.f32(1.0);
    Value column = arith::DivUIOp::create(b, b.position(2), two);
    GluPair pair(b, x, column, alpha, limit);
    Value inner =
              b.mul(b.mul(b.f32(alpha), pair.gate), b.sub(one, pair.sigmoid)),
          ofGate = b.mul(b.mul(b.add(pair.up, one), pair.sigmoid),
                         b.add(one, inner)),
          ofUp = b.mul(pair.gate, pair.sigmoid);
    Value isGate = arith::CmpIOp::create(
        b, arith::CmpIPredicate::eq,
        arith::RemUIOp::create(b, b.position(2), two), b.index(0));
    Value slope = arith::SelectOp::create(b, isGate, ofGate, ofUp);
    Value isKept =
        arith::SelectOp::create(b, isGate, pair.isGateKept, pair.isUpKept);
    Value given =
        b.toF32(b.extract(dy, {b.position(0), b.position(1), column}));
    return arith::SelectOp::create(b, isKept, b.mul(given, slope), b.f32(0.0));
  })};
}

static SmallVector<Value> lowerSinkGrad(LinalgBuilder &l, SinkGradOp op) {
  Value lse = op.getLse(), sinks = op.getSinks();
  int64_t heads = op.getType().getDimSize(2);
  Value delta = l.sumRows(
      {{op.getDy(), "btd", 0, heads}, {op.getOut(), "btd", 0, heads}},
      [](ElementBuilder &b, ValueRange in) { return b.mul(in[0], in[1]); });
  return {mapPlaces(l, op.getType(), op.getDy(), [=](ElementBuilder &b) {
    Value sample = b.position(0), token = b.position(1), head = b.position(2);
    Value row = arith::AddIOp::create(
        b, arith::MulIOp::create(b, token, b.index(heads)), head);
    Value sink = b.toF32(b.extract(sinks, {head}));
    Value weight = math::ExpOp::create(
        b, b.sub(sink, b.extract(lse, {sample, head, token})));
    return b.neg(b.mul(weight, b.extract(delta, {sample, row})));
  })};
}

void poplar::attachGroupLowerings(MLIRContext &context) {
  attachLowering<ClampedGluOp, lowerClampedGlu>(context);
  attachLowering<ClampedGluGradOp, lowerClampedGluGrad>(context);
  attachLowering<ExpertBiasOp, lowerExpertBias>(context);
  attachLowering<SinkGradOp, lowerSinkGrad>(context);
  attachLowering<SpreadScoresOp, lowerSpreadScores>(context);
  attachLowering<SpreadScoresGradOp, lowerSpreadScoresGrad>(context);
  attachLowering<RegroupOp, lowerRegroup>(context);
  attachLowering<RegroupPartsOp, lowerRegroupParts>(context);
  attachLowering<ScoreOp, lowerScore>(context);
  attachLowering<ScoreGradOp, lowerScoreGrad>(context);
  attachLowering<WeighOp, lowerWeigh>(context);
  attachLowering<WeighGradOp, lowerWeighGrad>(context);
}

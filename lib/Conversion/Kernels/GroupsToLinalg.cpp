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

void poplar::attachGroupLowerings(MLIRContext &context) {
  attachLowering<RegroupOp, lowerRegroup>(context);
  attachLowering<RegroupPartsOp, lowerRegroupParts>(context);
  attachLowering<ScoreOp, lowerScore>(context);
  attachLowering<ScoreGradOp, lowerScoreGrad>(context);
  attachLowering<WeighOp, lowerWeigh>(context);
  attachLowering<WeighGradOp, lowerWeighGrad>(context);
}

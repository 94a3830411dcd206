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

void poplar::attachGroupLowerings(MLIRContext &context) {
  attachLowering<RegroupOp, lowerRegroup>(context);
  attachLowering<WeighOp, lowerWeigh>(context);
  attachLowering<WeighGradOp, lowerWeighGrad>(context);
}

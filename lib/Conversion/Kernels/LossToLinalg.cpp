//===- LossToLinalg.cpp - Lower the loss and its gradient -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static Value isCounted(ElementBuilder &b, Value target) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, target, b.i32(0));
}

static SmallVector<Value> lowerCrossEntropy(LinalgBuilder &l,
                                            CrossEntropyOp op) {
  Value logits = op.getLogits();
  Value max = l.reduceRows(
      {{logits, "btd"}}, -std::numeric_limits<double>::infinity(),
      [](ElementBuilder &b, ValueRange in, Value running) -> Value {
        return arith::MaximumFOp::create(b, running, in[0]);
      });
  Value sum = l.sumRows({{logits, "btd"}, {max, "bt"}},
                        [](ElementBuilder &b, ValueRange in) -> Value {
                          return math::ExpOp::create(b, b.sub(in[0], in[1]));
                        });
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

static SmallVector<Value> lowerCrossEntropyGrad(LinalgBuilder &l,
                                                CrossEntropyGradOp op) {
  auto body = [](ElementBuilder &b, ValueRange in) {
    Value target = in[1], zero = b.f32(0.0);
    Value scale = arith::SelectOp::create(b, isCounted(b, target), in[3], zero);
    Value p = math::ExpOp::create(b, b.sub(in[0], in[2]));
    Value column = arith::IndexCastOp::create(b, b.getI32Type(), b.position(2));
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

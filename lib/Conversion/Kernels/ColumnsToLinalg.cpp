//===- ColumnsToLinalg.cpp - Lower ops that move or scale columns ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::nn;

static SmallVector<Value> lowerScale(LinalgBuilder &l, ScaleOp op) {
  double factor = op.getFactor().convertToDouble();
  return {l.mapElements(op.getType(), {op.getX()},
                        [=](ElementBuilder &b, ValueRange in) {
                          return b.mul(in[0], b.f32(factor));
                        })};
}

static SmallVector<Value> lowerSoftcap(LinalgBuilder &l, SoftcapOp op) {
  double cap = op.getCap().convertToDouble();
  return {l.mapElements(
      op.getType(), {op.getX()}, [=](ElementBuilder &b, ValueRange in) {
        Value scaled = b.mul(in[0], b.f32(1.0 / cap));
        return b.mul(b.f32(cap), math::TanhOp::create(b, scaled));
      })};
}

static SmallVector<Value> lowerSoftcapGrad(LinalgBuilder &l, SoftcapGradOp op) {
  double cap = op.getCap().convertToDouble();
  return {l.mapElements(op.getType(), {op.getDy(), op.getY()},
                        [=](ElementBuilder &b, ValueRange in) {
                          Value ratio = b.mul(in[1], b.f32(1.0 / cap));
                          return b.mul(in[0],
                                       b.sub(b.f32(1.0), b.mul(ratio, ratio)));
                        })};
}

static int64_t getWidth(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(2);
}

Value poplar::mapPlaces(LinalgBuilder &l, RankedTensorType type, Value like,
                        llvm::function_ref<Value(ElementBuilder &)> body) {
  Value init = l.empty(like, type.getShape(), type.getElementType());
  return l.generic("btd", {}, {{init, "btd"}},
                   [&](ElementBuilder &b, ValueRange, ValueRange) {
                     return SmallVector<Value>{body(b)};
                   })[0];
}

static SmallVector<Value> lowerSlice(LinalgBuilder &l, SliceOp op) {
  Value x = op.getX();
  int64_t offset = op.getOffset();
  return {mapPlaces(l, op.getType(), x, [=](ElementBuilder &b) {
    Value column = arith::AddIOp::create(b, b.position(2), b.index(offset));
    return b.extract(x, {b.position(0), b.position(1), column});
  })};
}

static SmallVector<Value> lowerSliceGrad(LinalgBuilder &l, SliceGradOp op) {
  Value dy = op.getDy();
  int64_t offset = op.getOffset(), width = getWidth(dy);
  return {mapPlaces(l, op.getType(), dy, [=](ElementBuilder &b) -> Value {
    // Columns before the first wrap around to huge numbers.
    Value column = arith::SubIOp::create(b, b.position(2), b.index(offset));
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, column,
                                           b.index(width));
    Value safe = arith::SelectOp::create(b, isInside, column, b.index(0));
    Value value = b.toF32(b.extract(dy, {b.position(0), b.position(1), safe}));
    return arith::SelectOp::create(b, isInside, value, b.f32(0.0));
  })};
}

void poplar::attachColumnLowerings(MLIRContext &context) {
  attachLowering<ScaleOp, lowerScale>(context);
  attachLowering<SoftcapOp, lowerSoftcap>(context);
  attachLowering<SoftcapGradOp, lowerSoftcapGrad>(context);
  attachLowering<SliceOp, lowerSlice>(context);
  attachLowering<SliceGradOp, lowerSliceGrad>(context);
}

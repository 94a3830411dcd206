//===- NNColumnOps.cpp - Ops that move or scale columns -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"

using namespace mlir;
using namespace poplar::nn;

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

// The types are equal by trait.
// - factor is finite
LogicalResult ScaleOp::verify() {
  if (getFactor().isFinite())
    return success();
  return emitOpError() << "factor is " << getFactor().convertToDouble()
                       << ", expected a finite number";
}

// - cap is finite and above 0
LogicalResult SoftcapOp::verify() {
  double cap = getCap().convertToDouble();
  if (cap > 0 && getCap().isFinite())
    return success();
  return emitOpError() << "cap is " << cap
                       << ", expected a finite number above 0";
}

/// `part` is the columns of `whole` from `offset` on, otherwise of its type.
static LogicalResult verifySlice(Operation *op, Value part, Value whole,
                                 int64_t offset) {
  auto partType = cast<RankedTensorType>(part.getType());
  auto wholeType = cast<RankedTensorType>(whole.getType());
  if (partType.getShape().take_front(2) != wholeType.getShape().take_front(2) ||
      partType.getElementType() != wholeType.getElementType())
    return op->emitOpError() << "has " << partType << " as a slice of "
                             << wholeType << ", expected other columns only";
  if (offset < 0 || offset > wholeType.getDimSize(2) - partType.getDimSize(2))
    return op->emitOpError() << "has offset " << offset << ", which with "
                             << partType.getDimSize(2) << " columns leaves the "
                             << wholeType.getDimSize(2) << " that there are";
  return success();
}

LogicalResult SliceOp::verify() {
  return verifySlice(*this, getResult(), getX(), getOffset());
}
LogicalResult SliceGradOp::verify() {
  return verifySlice(*this, getDy(), getResult(), getOffset());
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult ScaleOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(),
            ScaleOp::create(builder, getLoc(), getX().getType(),
                            grads.cotangent(getResult()), getFactorAttr()));
  return success();
}

LogicalResult SoftcapOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  // From the result, not from x: the next op most often keeps it anyway.
  grads.add(getX(), SoftcapGradOp::create(builder, getLoc(), getX().getType(),
                                          grads.cotangent(getResult()),
                                          getResult(), getCapAttr()));
  return success();
}

LogicalResult SliceOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  grads.add(getX(),
            SliceGradOp::create(builder, getLoc(), getX().getType(),
                                grads.cotangent(getResult()), getOffsetAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

OpCost ScaleOp::getCost() { return getRowCost(*this, getX(), 1); }
OpCost SoftcapOp::getCost() { return getRowCost(*this, getX(), 3); }
OpCost SoftcapGradOp::getCost() { return getRowCost(*this, getY(), 4); }
OpCost SliceOp::getCost() {
  // Other columns are not read.
  OpCost cost = getRowCost(*this, getResult(), 0);
  auto type = cast<RankedTensorType>(getX().getType());
  auto taken = cast<RankedTensorType>(getResult().getType());
  cost.bytes -= double(type.getDimSize(2) - taken.getDimSize(2)) *
                double(type.getDimSize(1)) * type.getElementTypeBitWidth() / 8;
  return cost;
}
OpCost SliceGradOp::getCost() { return getRowCost(*this, getResult(), 0); }

//===- Softcap.cpp - The ops of the example -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Softcap.h"
#include "Poplar/Conversion/Kernels/LinalgBuilder.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace poplar;
using namespace example;

#include "SoftcapDialect.cpp.inc"
#define GET_OP_CLASSES
#include "SoftcapOps.cpp.inc"

void ExampleDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "SoftcapOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Verifier
//===----------------------------------------------------------------------===//

LogicalResult SoftcapOp::verify() {
  double cap = getCap().convertToDouble();
  if (!(cap > 0) || getCap().isInfinity())
    return emitOpError("cap is ")
           << cap << ", expected a finite number above 0";
  return success();
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

SmallVector<Value> SoftcapOp::lowerToLinalg(LinalgBuilder &builder) {
  double cap = getCap().convertToDouble();
  return {builder.mapElements(
      getType(), getX(), [=](ElementBuilder &b, ValueRange in) {
        Value scaled = b.mul(in[0], b.f32(1.0 / cap));
        return b.mul(b.f32(cap), math::TanhOp::create(b, scaled));
      })};
}

SmallVector<Value> SoftcapGradOp::lowerToLinalg(LinalgBuilder &builder) {
  double cap = getCap().convertToDouble();
  return {builder.mapElements(
      getType(), {getDy(), getY()}, [=](ElementBuilder &b, ValueRange in) {
        Value tanh = b.mul(in[1], b.f32(1.0 / cap));
        return b.mul(in[0], b.sub(b.f32(1.0), b.mul(tanh, tanh)));
      })};
}

//===----------------------------------------------------------------------===//
// Derivative
//===----------------------------------------------------------------------===//

LogicalResult SoftcapOp::buildVJP(OpBuilder &builder, nn::Gradients &grads) {
  // From the result, not from x: the next op most often keeps it anyway.
  grads.add(getX(), SoftcapGradOp::create(builder, getLoc(), getX().getType(),
                                          grads.cotangent(getResult()),
                                          getResult(), getCapAttr()));
  return success();
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

nn::OpCost SoftcapOp::getCost() { return nn::getRowCost(*this, getX(), 3); }

nn::OpCost SoftcapGradOp::getCost() { return nn::getRowCost(*this, getY(), 4); }

//===- NNBalanceOps.cpp - The loss that balances experts ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loss multiplies means over all layers: how often tokens go to an expert,
// and how probable it is. Blocks hand both on beside the activations, as
// columns of one value, so that the loss gets the sums, and the router of each
// layer the gradient.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/NN/NNTensorParallel.h"

using namespace mlir;
using namespace poplar::nn;

static RankedTensorType getTensor(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static int64_t getWidth(Value value) { return getTensor(value).getDimSize(2); }

/// Whether both have a row, or an element, for each of the same tokens.
static bool haveSameTokens(Value x, Value y) {
  return getTensor(x).getShape().take_front(2) ==
         getTensor(y).getShape().take_front(2);
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

// - x, y and the result have the same tokens and element type
// - the result has room for both
LogicalResult JoinOp::verify() {
  int64_t width = 0;
  for (Value part : getOperands()) {
    if (!haveSameTokens(part, getResult()) ||
        getTensor(part).getElementType() !=
            getTensor(getResult()).getElementType())
      return emitOpError() << "has " << part.getType() << " as a part of "
                           << getType() << ", expected other columns only";
    width += getWidth(part);
  }
  if (width <= getWidth(getResult()))
    return success();
  return emitOpError() << "has parts of " << width
                       << " columns, and a result of " << getWidth(getResult());
}

/// `sums` have two columns for each of `logits`.
static LogicalResult verifySums(Operation *op, Value sums, Value logits) {
  if (haveSameTokens(sums, logits) && getWidth(sums) == 2 * getWidth(logits))
    return success();
  return op->emitOpError() << "has sums " << sums.getType()
                           << ", expected two columns for each of logits "
                           << logits.getType();
}

LogicalResult CountExpertsOp::verify() {
  if (failed(verifySums(*this, getSums(), getLogits())))
    return failure();
  int64_t tokens = getTensor(getLogits()).getDimSize(1);
  int64_t slots = getTensor(getExperts()).getDimSize(1);
  if (getTensor(getExperts()).getDimSize(0) ==
          getTensor(getLogits()).getDimSize(0) &&
      tokens > 0 && slots >= tokens && slots % tokens == 0)
    return success();
  return emitOpError() << "has experts " << getExperts().getType()
                       << ", expected some elements for each token of "
                       << getLogits().getType();
}

LogicalResult CountExpertsGradOp::verify() {
  return verifySums(*this, getDsums(), getLogits());
}

static LogicalResult verifyBalance(Operation *op, Value loss, Value targets,
                                   Value sums, const llvm::APFloat &factor) {
  if (!haveSameTokens(loss, sums) || !haveSameTokens(targets, sums))
    return op->emitOpError()
           << "has losses " << loss.getType() << ", targets "
           << targets.getType() << " and sums " << sums.getType()
           << ", expected one of each for a token";
  if (getWidth(sums) % 2 != 0)
    return op->emitOpError() << "has sums " << sums.getType()
                             << ", expected two columns for each expert";
  double value = factor.convertToDouble();
  if (value > 0 && factor.isFinite())
    return success();
  return op->emitOpError() << "factor is " << value
                           << ", expected a finite number above 0";
}

LogicalResult BalanceLossOp::verify() {
  return verifyBalance(*this, getLoss(), getTargets(), getSums(), getFactor());
}
LogicalResult BalanceLossGradOp::verify() {
  return verifyBalance(*this, getDresult(), getTargets(), getSums(),
                       getFactor());
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

LogicalResult JoinOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  int64_t offset = 0;
  for (Value part : getOperands()) {
    if (grads.isNeeded(part))
      grads.add(part, SliceOp::create(builder, getLoc(), part.getType(),
                                      grads.cotangent(getResult()), offset));
    offset += getWidth(part);
  }
  return success();
}

LogicalResult CountExpertsOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  Value dsums = grads.cotangent(getResult());
  if (grads.isNeeded(getSums()))
    grads.add(getSums(), dsums);
  if (grads.isNeeded(getLogits()))
    grads.add(getLogits(), CountExpertsGradOp::create(builder, getLoc(),
                                                      getLogits().getType(),
                                                      dsums, getLogits()));
  return success();
}

LogicalResult BalanceLossOp::buildVJP(OpBuilder &builder, Gradients &grads) {
  auto made = BalanceLossGradOp::create(
      builder, getLoc(), getLoss().getType(), getSums().getType(),
      grads.cotangent(getResult()), getTargets(), getSums(), getFactorAttr());
  if (grads.isNeeded(getLoss()))
    grads.add(getLoss(), made.getDloss());
  if (grads.isNeeded(getSums()))
    grads.add(getSums(), made.getDsums());
  return success();
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

OpCost JoinOp::getCost() { return getRowCost(*this, getResult(), 0); }
OpCost CountExpertsOp::getCost() { return getRowCost(*this, getSums(), 3); }
OpCost CountExpertsGradOp::getCost() {
  return getRowCost(*this, getDsums(), 3);
}
OpCost BalanceLossOp::getCost() { return getRowCost(*this, getSums(), 1); }
OpCost BalanceLossGradOp::getCost() { return getRowCost(*this, getSums(), 2); }

//===----------------------------------------------------------------------===//
// Devices that share units
//===----------------------------------------------------------------------===//

static LogicalResult refuseSharing(Operation *op) {
  return op->emitOpError("is of a mixture of experts, which devices cannot "
                         "share yet: plan without `tensor`");
}

LogicalResult JoinOp::shard(UnitSharding &) { return refuseSharing(*this); }
LogicalResult CountExpertsOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}
LogicalResult BalanceLossOp::shard(UnitSharding &) {
  return refuseSharing(*this);
}

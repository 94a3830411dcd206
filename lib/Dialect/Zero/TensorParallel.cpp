//===- TensorParallel.cpp - Ops of devices that share units ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Runtime/ABI.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

/// Bounds of tokens from 0 on, of two ranks or more, each with one at least.
static LogicalResult verifyBounds(Operation *op, ArrayRef<int64_t> bounds) {
  bool rises = bounds.size() > 2 && bounds.front() == 0;
  for (size_t i = 1; i < bounds.size(); ++i)
    rises &= bounds[i - 1] < bounds[i];
  if (!rises)
    return op->emitOpError("has bounds [")
           << bounds
           << "], expected ascending bounds from 0, one more than ranks";
  if (bounds.size() > POPLAR_MAX_SHARERS + 1)
    return op->emitOpError("is of ") << bounds.size() - 1 << " ranks; at most "
                                     << POPLAR_MAX_SHARERS << " share units";
  return success();
}

/// `all` has all tokens, `mine` those of the rank.
static LogicalResult verifyTokens(Operation *op, Type all, Type mine,
                                  ArrayRef<int64_t> bounds, int64_t position) {
  if (failed(verifyBounds(op, bounds)))
    return failure();
  if (position < 0 || position + 1 >= int64_t(bounds.size()))
    return op->emitOpError("is at position ")
           << position << " of " << bounds.size() - 1 << " ranks";
  auto whole = cast<RankedTensorType>(all), part = cast<RankedTensorType>(mine);
  SmallVector<int64_t> expected(whole.getShape());
  if (expected.size() > 1)
    expected[1] = bounds[position + 1] - bounds[position];
  if (expected.size() < 2 || whole.getDimSize(1) != bounds.back() ||
      part.getShape() != ArrayRef<int64_t>(expected) ||
      part.getElementType() != whole.getElementType())
    return op->emitOpError("has values of types ")
           << all << " and " << mine << ", which the bounds [" << bounds
           << "] do not fit";
  return success();
}

/// Moves what it reads and writes once.
static nn::OpCost getMoveCost(Operation *op) {
  return nn::getRowCost(op, op->getResult(0), /*flopsPerElement=*/0);
}

/// Bytes of all dimensions behind samples and tokens.
static int64_t getBytesPerToken(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return ShapedType::getNumElements(tensor.getShape().drop_front(2)) *
         tensor.getElementTypeBitWidth() / 8;
}

LogicalResult GatherTokensOp::verify() {
  return verifyTokens(*this, getResult().getType(), getTokens().getType(),
                      getBounds(), getPosition());
}

nn::OpCost GatherTokensOp::getCost() { return getMoveCost(*this); }

SmallVector<TokenExchange> GatherTokensOp::getExchanges() {
  return {
      {ExchangeKind::GatherTokens, getBytesPerToken(getTokens().getType())}};
}

// It is as large as what attention keeps, and cheaper than a product.
bool GatherTokensOp::isRecomputedWithAttention() { return true; }

LogicalResult GatherTokensOp::buildVJP(OpBuilder &builder,
                                       nn::Gradients &grads) {
  grads.add(getTokens(),
            ScatterTokensOp::create(builder, getLoc(), getTokens().getType(),
                                    grads.cotangent(getResult()), getBounds(),
                                    getPosition()));
  return success();
}

LogicalResult ScatterTokensOp::verify() {
  return verifyTokens(*this, getPartial().getType(), getResult().getType(),
                      getBounds(), getPosition());
}

nn::OpCost ScatterTokensOp::getCost() { return getMoveCost(*this); }

SmallVector<TokenExchange> ScatterTokensOp::getExchanges() {
  return {
      {ExchangeKind::ScatterTokens, getBytesPerToken(getPartial().getType())}};
}

LogicalResult ScatterTokensOp::buildVJP(OpBuilder &builder,
                                        nn::Gradients &grads) {
  grads.add(getPartial(),
            GatherTokensOp::create(builder, getLoc(), getPartial().getType(),
                                   grads.cotangent(getResult()), getBounds(),
                                   getPosition()));
  return success();
}

LogicalResult ExchangeOp::verify() {
  if (failed(verifyBounds(*this, getBounds())))
    return failure();
  if (getKind() == ExchangeKind::GatherTokens)
    return emitOpError("gathers tokens: use zero.gather_tokens");
  if (getResults().size() + 1 != getBounds().size())
    return emitOpError("has ") << getResults().size() << " results for "
                               << getBounds().size() - 1 << " ranks";
  for (Value result : getResults())
    if (result.getType() != getResults().front().getType())
      return emitOpError("has results of different types");
  if (getKind() == ExchangeKind::Collect &&
      getResults().front().getType() != getValue().getType())
    return emitOpError("collects ")
           << getValue().getType() << " as " << getResults().front().getType();
  return success();
}

nn::OpCost ExchangeOp::getCost() { return getMoveCost(*this); }

SmallVector<TokenExchange> ExchangeOp::getExchanges() {
  return {{getKind(), getBytesPerToken(getValue().getType())}};
}

LogicalResult CrossEntropyOp::verify() {
  if (failed(verifyBounds(*this, getBounds())))
    return failure();
  auto logits = cast<RankedTensorType>(getLogits().getType());
  for (Value value : {Value(getTargets()), Value(getLoss()), Value(getLse())}) {
    auto type = cast<RankedTensorType>(value.getType());
    if (logits.getRank() != 3 ||
        type.getShape() != logits.getShape().drop_back())
      return emitOpError("has a value of type ")
             << type << " for logits of type " << logits
             << ", expected one for each token";
  }
  return success();
}

nn::OpCost CrossEntropyOp::getCost() {
  return nn::getRowCost(*this, getLogits(), /*flopsPerElement=*/4);
}

// The log-sum-exp over the rank's columns, then the target's logit.
SmallVector<TokenExchange> CrossEntropyOp::getExchanges() {
  return SmallVector<TokenExchange>(
      2, {ExchangeKind::Collect, getBytesPerToken(getLse().getType())});
}

LogicalResult CrossEntropyOp::buildVJP(OpBuilder &builder,
                                       nn::Gradients &grads) {
  grads.add(getLogits(),
            nn::CrossEntropyGradOp::create(
                builder, getLoc(), getLogits().getType(), getLogits(),
                getTargets(), getLse(), grads.cotangent(getLoss()),
                builder.getI64IntegerAttr(int64_t(getFirstColumn()))));
  return success();
}

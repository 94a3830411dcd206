//===- ZeroExchange.cpp - Exchanges beside products -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Runtime/ABI.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::zero;

#define GET_OP_CLASSES
#include "Poplar/Dialect/Zero/ZeroExchangeOps.cpp.inc"

/// The op that does the same at once verifies bounds and types.
LogicalResult StartExchangeOp::verify() {
  ArrayRef<int64_t> bounds = getBounds();
  auto ranks = int64_t(bounds.size()) - 1;
  bool gathers = getKind() == ExchangeKind::GatherTokens;
  bool scatters = getKind() == ExchangeKind::ScatterTokens;
  if (ranks < 2 || int64_t(getResults().size()) != (gathers ? 1 : ranks) ||
      !(gathers || scatters))
    return emitOpError("has ")
           << getResults().size() << " results to "
           << stringifyExchangeKind(getKind()) << " among " << ranks
           << " ranks, expected one to gather_tokens, or one for each rank to "
              "scatter_tokens";
  if (int64_t(getPosition()) < 0 || int64_t(getPosition()) >= ranks)
    return emitOpError("is at position ")
           << getPosition() << " of " << ranks << " ranks";
  if (int64_t(getPieces()) < 1 || int64_t(getPieces()) > POPLAR_MAX_PIECES)
    return emitOpError("has ")
           << getPieces() << " pieces, expected 1 to " << POPLAR_MAX_PIECES;
  if (getChained()) {
    WaitExchangeOp wait = getChain();
    StartExchangeOp before = wait ? wait.getStart() : StartExchangeOp();
    if (!gathers || !before ||
        before.getKind() != ExchangeKind::ScatterTokens ||
        before.getPieces() != getPieces() || before.getBounds() != bounds)
      return emitOpError("is chained, but no tokens were scattered before in "
                         "the same pieces");
  }
  Type all = gathers ? getResult(0).getType() : getValue().getType();
  auto whole = cast<RankedTensorType>(all);
  for (int64_t i = 0; i < ranks; ++i)
    if (bounds[i] >= bounds[i + 1])
      return emitOpError("has bounds [")
             << bounds << "], expected ascending bounds";
  SmallVector<int64_t> shape(whole.getShape());
  if (shape.size() > 1)
    shape[1] = bounds[getPosition() + 1] - bounds[getPosition()];
  Type expected = RankedTensorType::get(shape, whole.getElementType());
  auto parts = gathers ? SmallVector<Type>{getValue().getType()}
                       : llvm::to_vector(getResultTypes());
  if (shape.size() < 2 || whole.getDimSize(1) != bounds.back() ||
      !llvm::all_of(parts, [&](Type part) { return part == expected; }))
    return emitOpError("has values of types ")
           << all << " and " << parts.front() << ", which the bounds ["
           << bounds << "] do not fit";
  return success();
}

double StartExchangeOp::getOwnPart() {
  ArrayRef<int64_t> bounds = getBounds();
  return double(bounds[getPosition() + 1] - bounds[getPosition()]) /
         double(bounds.back());
}

WaitExchangeOp StartExchangeOp::getWait() {
  for (Operation *user : getResult(0).getUsers())
    if (auto wait = dyn_cast<WaitExchangeOp>(user))
      return wait;
  return {};
}

WaitExchangeOp StartExchangeOp::getChain() {
  for (Operation *op = getChained() ? getOperation()->getPrevNode() : nullptr;
       op; op = op->getPrevNode())
    if (auto wait = dyn_cast<WaitExchangeOp>(op))
      return wait;
  return {};
}

nn::OpCost StartExchangeOp::getCost() {
  return nn::getRowCost(*this, getResult(0), /*flopsPerElement=*/0);
}

SmallVector<TokenExchange> StartExchangeOp::getExchanges() {
  auto type = cast<RankedTensorType>(getValue().getType());
  return {
      {getKind(), ShapedType::getNumElements(type.getShape().drop_front(2)) *
                      type.getElementTypeBitWidth() / 8}};
}

void WaitExchangeOp::build(OpBuilder &builder, OperationState &state,
                           StartExchangeOp start) {
  build(builder, state, start->getResultTypes(), start.getResults(),
        start.getValue());
}

StartExchangeOp WaitExchangeOp::getStart() {
  return getStarted().empty()
             ? StartExchangeOp()
             : getStarted().front().getDefiningOp<StartExchangeOp>();
}

LogicalResult WaitExchangeOp::verify() {
  StartExchangeOp start = getStart();
  if (!start || !llvm::equal(getStarted(), start.getResults()) ||
      getValue() != start.getValue())
    return emitOpError(
        "must take all results of one zero.start_exchange and its value");
  if (!llvm::equal(getStarted().getTypes(), getResultTypes()))
    return emitOpError("has result types that differ from the exchange's");
  return success();
}

nn::OpCost WaitExchangeOp::getCost() { return {}; }

LogicalResult SumExchangeOp::verify() {
  for (Value part : getParts())
    if (part.getType() != getSum().getType())
      return emitOpError("adds ")
             << part.getType() << " to " << getSum().getType();
  if (getParts().empty())
    return emitOpError("has no values to add");
  return success();
}

nn::OpCost SumExchangeOp::getCost() {
  return nn::getRowCost(*this, getSum(),
                        /*flopsPerElement=*/double(getParts().size()) - 1);
}

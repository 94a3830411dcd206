//===- ExecExchange.cpp - Exchanges beside products -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Exec/Exec.h"

using namespace mlir;
using namespace poplar;
using namespace poplar::exec;

LogicalResult RowsOp::verify() {
  auto whole = cast<MemRefType>(getBuffer().getType()),
       part = cast<MemRefType>(getRows().getType());
  if (!getBufferSize(whole).perSample || whole.getRank() < 2 ||
      part.getRank() != whole.getRank() ||
      part.getElementType() != whole.getElementType() ||
      part.getDimSize(0) != whole.getDimSize(0) ||
      part.getShape().drop_front(2) != whole.getShape().drop_front(2) ||
      (part.getRank() > 2 && getRowElements(part) != getRowElements(whole)) ||
      int64_t(getFirst()) + part.getDimSize(1) > whole.getDimSize(1))
    return emitOpError("takes ") << part << " from token " << getFirst()
                                 << ", which does not lie in " << whole;
  return success();
}

int64_t RowsOp::getRowBytes() {
  return getTokenBytes(cast<MemRefType>(getRows().getType()));
}

WaitExchangeOp StartExchangeOp::getWait() {
  return getToken().hasOneUse()
             ? dyn_cast<WaitExchangeOp>(*getToken().user_begin())
             : WaitExchangeOp();
}

int64_t StartExchangeOp::getCut(int64_t rank, int64_t piece) {
  ArrayRef<int64_t> bounds = getBounds();
  int64_t tokens = bounds[rank + 1] - bounds[rank];
  return bounds[rank] + tokens * piece / int64_t(getPieces());
}

LogicalResult StartExchangeOp::verify() {
  ArrayRef<int64_t> bounds = getBounds();
  auto ranks = int64_t(bounds.size()) - 1;
  bool gathers = getKind() == zero::ExchangeKind::GatherTokens;
  if (ranks < 2 || !llvm::is_sorted(bounds) || bounds.front() != 0)
    return emitOpError("has bounds [")
           << bounds
           << "], expected ascending bounds from 0, one more than ranks";
  if (int64_t(getResults().size()) != (gathers ? 1 : ranks))
    return emitOpError("has ")
           << getResults().size() << " results for " << ranks << " ranks";
  if (int64_t(getPosition()) >= ranks ||
      int64_t(getRound().value_or(0)) >= ranks)
    return emitOpError("is round ")
           << getRound().value_or(0) << " at position " << getPosition()
           << " of " << ranks << " ranks";
  if (getPiece() >= getPieces() || getPieces() > POPLAR_MAX_PIECES ||
      (getPieces() > 1 && !getRound()))
    return emitOpError("is piece ")
           << getPiece() << " of " << getPieces() << ", expected at most "
           << POPLAR_MAX_PIECES
           << " pieces in a round, and one in all rounds together";
  if (getChained() && (!gathers || getRound()))
    return emitOpError("is chained, but only a complete gather_tokens can be");
  auto all = cast<MemRefType>(
      (gathers ? getResults().front() : getSource()).getType());
  if (all.getRank() < 2 || all.getDimSize(1) != bounds.back())
    return emitOpError("exchanges ")
           << all << ", expected the " << bounds.back()
           << " tokens that are divided";
  return success();
}

//===- SplitProducts.cpp - Products beside exchanges ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SplitProducts.h"
#include "Poplar/Dialect/Exec/Exec.h"

using namespace mlir;
using namespace poplar;

namespace {

class ExchangeSplitter {
public:
  ExchangeSplitter(exec::StartExchangeOp start, int64_t alignment)
      : start(start), wait(start.getWait()), alignment(alignment),
        ranks(int64_t(start.getBounds().size()) - 1), builder(start) {}

  void run() {
    if (start.getKind() == zero::ExchangeKind::GatherTokens) {
      if (splitGather())
        return;
    } else if (exec::ProductOp product = findScattered()) {
      return send(product);
    }
    // Other ranks may cut their products: all send the same pieces in the same
    // order.
    if (start.getPieces() > 1)
      send({});
  }

private:
  int64_t getRank(int64_t offset) {
    return (int64_t(start.getPosition()) + ranks + offset) % ranks;
  }
  bool canSplit(exec::ProductOp product, Operation *end) const;
  bool isAligned(Value buffer) const;
  Value getRows(Value buffer, int64_t first, int64_t end);
  /// A part of a product: a rank's rows, or a piece of them.
  void createProduct(exec::ProductOp product, int64_t first, int64_t end);
  void createProduct(exec::ProductOp product, int64_t rank) {
    createProduct(product, start.getBounds()[rank],
                  start.getBounds()[rank + 1]);
  }
  void createProduct(exec::ProductOp product, int64_t rank,
                     exec::StartExchangeOp piece) {
    createProduct(product, piece.getFirst(rank), piece.getEnd(rank));
  }
  /// Of the rank's own tokens, which are copied at once.
  exec::StartExchangeOp createOwnStart();
  exec::StartExchangeOp createStart(int64_t round, int64_t piece);
  void createWait(exec::StartExchangeOp round) {
    exec::WaitExchangeOp::create(builder, start.getLoc(), round.getToken());
  }
  /// Begins with each piece, once the product has made its rows if there is
  /// one, and waits for all.
  void send(exec::ProductOp product);
  /// False if no product can be cut.
  bool splitGather();
  /// The product that makes what is scattered, if it can be cut.
  exec::ProductOp findScattered();

  exec::StartExchangeOp start;
  exec::WaitExchangeOp wait;
  int64_t alignment, ranks;
  OpBuilder builder;
};

} // namespace

bool ExchangeSplitter::isAligned(Value buffer) const {
  if (!buffer)
    return true;
  auto type = cast<MemRefType>(buffer.getType());
  int64_t bytes = ShapedType::getNumElements(type.getShape().drop_front(2)) *
                  type.getElementTypeBitWidth() / 8;
  return bytes % alignment == 0;
}

/// Whether the product may run in parts up to `end`.
bool ExchangeSplitter::canSplit(exec::ProductOp product, Operation *end) const {
  for (Operation *op = product->getNextNode(); op != end;
       op = op->getNextNode())
    if (auto ends = dyn_cast<exec::EndOp>(op))
      if (llvm::is_contained(product->getOperands(), ends.getBuffer()))
        return false;
  return isAligned(product.getA()) && isAligned(product.getAux()) &&
         isAligned(product.getC());
}

Value ExchangeSplitter::getRows(Value buffer, int64_t first, int64_t end) {
  if (!buffer)
    return {};
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = end - first;
  return exec::RowsOp::create(builder, start.getLoc(),
                              MemRefType::get(shape, type.getElementType()),
                              buffer, first);
}

void ExchangeSplitter::createProduct(exec::ProductOp product, int64_t first,
                                     int64_t end) {
  Value a = getRows(product.getA(), first, end),
        aux = getRows(product.getAux(), first, end),
        c = getRows(product.getC(), first, end);
  exec::ProductOp::create(builder, product.getLoc(), a, product.getB(),
                          product.getBias(), aux, c, product.getTransB(),
                          product.getEpilogue(), product.getTf32());
}

exec::StartExchangeOp ExchangeSplitter::createStart(int64_t round,
                                                    int64_t piece) {
  auto made = cast<exec::StartExchangeOp>(builder.clone(*start));
  made.setRound(round);
  made.setPiece(piece);
  return made;
}

exec::StartExchangeOp ExchangeSplitter::createOwnStart() {
  exec::StartExchangeOp made = createStart(0, 0);
  made.setPieces(1);
  return made;
}

bool ExchangeSplitter::splitGather() {
  Value all = start.getResults().front();
  SmallVector<exec::ProductOp> products;
  for (Operation *op = start->getNextNode(); op != wait.getOperation();
       op = op->getNextNode()) {
    auto product = dyn_cast<exec::ProductOp>(op);
    if (!product || product.getA() != all)
      continue;
    if (!canSplit(product, wait)) {
      wait->moveBefore(product);
      break;
    }
    products.push_back(product);
  }
  if (products.empty())
    return false;
  SmallVector<exec::StartExchangeOp> pieces;
  for (int64_t round = 1; round < ranks; ++round)
    for (int64_t piece = 0; piece < int64_t(start.getPieces()); ++piece)
      pieces.push_back(createStart(round, piece));
  createWait(createOwnStart());
  for (exec::ProductOp product : products) {
    builder.setInsertionPoint(product);
    createProduct(product, getRank(0));
  }
  builder.setInsertionPoint(wait);
  for (exec::StartExchangeOp piece : pieces) {
    createWait(piece);
    for (exec::ProductOp product : products)
      createProduct(product, getRank(-int64_t(*piece.getRound())), piece);
  }
  wait.erase();
  start.erase();
  for (exec::ProductOp product : products)
    product.erase();
  return true;
}

exec::ProductOp ExchangeSplitter::findScattered() {
  // If nothing stands between the two.
  Operation *last = start->getPrevNode();
  while (isa_and_nonnull<exec::BufferOp, exec::EndOp>(last))
    last = last->getPrevNode();
  auto product = dyn_cast_or_null<exec::ProductOp>(last);
  bool isFound = product && product.getC() == start.getSource() &&
                 canSplit(product, start);
  return isFound ? product : exec::ProductOp();
}

void ExchangeSplitter::send(exec::ProductOp product) {
  SmallVector<exec::StartExchangeOp> pieces;
  for (int64_t round = 1; round < ranks; ++round)
    for (int64_t piece = 0; piece < int64_t(start.getPieces()); ++piece) {
      exec::StartExchangeOp begun = createStart(round, piece);
      if (product) {
        builder.setInsertionPoint(begun);
        createProduct(product, getRank(round), begun);
        builder.setInsertionPointAfter(begun);
      }
      pieces.push_back(begun);
    }
  if (product)
    createProduct(product, getRank(0));
  pieces.push_back(createOwnStart());
  builder.setInsertionPoint(wait);
  for (exec::StartExchangeOp piece : pieces)
    createWait(piece);
  wait.erase();
  start.erase();
  if (product)
    product.erase();
}

void poplar::splitProducts(exec::FunctionOp function, int64_t alignment) {
  for (auto start : llvm::to_vector(
           function.getBody().front().getOps<exec::StartExchangeOp>()))
    ExchangeSplitter(start, alignment).run();
}

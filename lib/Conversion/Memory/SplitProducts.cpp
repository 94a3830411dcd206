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
    if (start.getKind() == zero::ExchangeKind::GatherTokens)
      splitGather();
    else
      splitScatter();
  }

private:
  int64_t getRank(int64_t offset) {
    return (int64_t(start.getPosition()) + ranks + offset) % ranks;
  }
  bool canSplit(exec::ProductOp product, Operation *end) const;
  bool isAligned(Value buffer) const;
  Value getRows(Value buffer, int64_t rank);
  void createProduct(exec::ProductOp product, int64_t rank);
  exec::StartExchangeOp createStart(int64_t round);
  void createWait(exec::StartExchangeOp round) {
    exec::WaitExchangeOp::create(builder, start.getLoc(), round.getToken());
  }
  void splitGather();
  void splitScatter();

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

Value ExchangeSplitter::getRows(Value buffer, int64_t rank) {
  if (!buffer)
    return {};
  ArrayRef<int64_t> bounds = start.getBounds();
  auto type = cast<MemRefType>(buffer.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = bounds[rank + 1] - bounds[rank];
  return exec::RowsOp::create(builder, start.getLoc(),
                              MemRefType::get(shape, type.getElementType()),
                              buffer, bounds[rank]);
}

void ExchangeSplitter::createProduct(exec::ProductOp product, int64_t rank) {
  Value a = getRows(product.getA(), rank),
        aux = getRows(product.getAux(), rank),
        c = getRows(product.getC(), rank);
  exec::ProductOp::create(builder, product.getLoc(), a, product.getB(),
                          product.getBias(), aux, c, product.getTransB(),
                          product.getEpilogue(), product.getTf32());
}

exec::StartExchangeOp ExchangeSplitter::createStart(int64_t round) {
  auto made = cast<exec::StartExchangeOp>(builder.clone(*start));
  made.setRound(round);
  return made;
}

void ExchangeSplitter::splitGather() {
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
    return;
  SmallVector<exec::StartExchangeOp> rounds;
  for (int64_t round = 1; round < ranks; ++round)
    rounds.push_back(createStart(round));
  createWait(createStart(0));
  for (exec::ProductOp product : products) {
    builder.setInsertionPoint(product);
    createProduct(product, getRank(0));
  }
  builder.setInsertionPoint(wait);
  for (auto [index, round] : llvm::enumerate(rounds)) {
    createWait(round);
    for (exec::ProductOp product : products)
      createProduct(product, getRank(-int64_t(index) - 1));
  }
  wait.erase();
  start.erase();
  for (exec::ProductOp product : products)
    product.erase();
}

void ExchangeSplitter::splitScatter() {
  // The product that makes the value, if nothing stands between the two.
  Operation *last = start->getPrevNode();
  while (isa_and_nonnull<exec::BufferOp, exec::EndOp>(last))
    last = last->getPrevNode();
  auto product = dyn_cast_or_null<exec::ProductOp>(last);
  if (!product || product.getC() != start.getSource() ||
      !canSplit(product, start))
    return;
  SmallVector<exec::StartExchangeOp> rounds;
  for (int64_t round = 1; round < ranks; ++round) {
    createProduct(product, getRank(round));
    rounds.push_back(createStart(round));
  }
  createProduct(product, getRank(0));
  rounds.push_back(createStart(0));
  builder.setInsertionPoint(wait);
  for (exec::StartExchangeOp round : rounds)
    createWait(round);
  wait.erase();
  start.erase();
  product.erase();
}

void poplar::splitProducts(exec::FunctionOp function, int64_t alignment) {
  for (auto start : llvm::to_vector(
           function.getBody().front().getOps<exec::StartExchangeOp>()))
    ExchangeSplitter(start, alignment).run();
}

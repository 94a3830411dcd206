//===- SplitProducts.cpp - Products beside exchanges ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SplitProducts.h"
#include "KernelRows.h"
#include "Poplar/Dialect/Exec/Exec.h"

using namespace mlir;
using namespace poplar;

namespace {

/// The kernel of a dispatch on buffers.
exec::KernelOp getKernel(exec::DispatchOp dispatch) {
  return SymbolTable::lookupNearestSymbolFrom<exec::KernelOp>(
      dispatch, dispatch.getKernelAttr());
}

/// What stands beside `start`: products of what it gathers, or the one of what
/// it scatters, and what is made of that for a gather that is chained to it.
class ExchangeSplitter {
public:
  /// Kernels of which it runs some rows at a time are added to `cut`.
  ExchangeSplitter(exec::StartExchangeOp start, int64_t alignment,
                   llvm::SetVector<exec::KernelOp> &cut)
      : start(start), wait(start.getWait()), alignment(alignment), cut(cut),
        ranks(int64_t(start.getBounds().size()) - 1),
        pieces(int64_t(start.getPieces())), builder(start) {}

  /// Returns the gather that is chained to it, if it has taken that along.
  Operation *run() {
    if (start.getKind() == zero::ExchangeKind::ScatterTokens)
      return scatter(findScattered());
    gather();
    return nullptr;
  }

private:
  int64_t getRank(int64_t offset) {
    return (int64_t(start.getPosition()) + ranks + offset) % ranks;
  }
  int64_t countOwnTokens() {
    const int64_t *own = start.getBounds().data() + start.getPosition();
    return own[1] - own[0];
  }
  bool canSplit(exec::ProductOp product, Operation *end) const;
  bool isAligned(Value buffer, int64_t bytes) const;
  /// Calls `body` with each round and piece, in the order in which all ranks
  /// begin them: a piece goes to all others before the next does.
  void forEachPiece(llvm::function_ref<void(int64_t, int64_t)> body) {
    for (int64_t piece = 0; piece < pieces; ++piece)
      for (int64_t round = 1; round < ranks; ++round)
        body(round, piece);
  }
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
  /// A kernel for tokens [first, end) of the rank's own.
  void createDispatch(exec::DispatchOp dispatch, int64_t first, int64_t end);
  /// The start for the rank's own tokens, which are copied at once.
  exec::StartExchangeOp createOwnStart();
  exec::StartExchangeOp createStart(int64_t round, int64_t piece);
  void createWait(exec::StartExchangeOp round) {
    exec::WaitExchangeOp::create(builder, start.getLoc(), round.getToken());
  }
  void gather();
  /// Waits for the pieces of others, and computes the rows of each.
  void receive(ArrayRef<exec::ProductOp> products,
               ArrayRef<exec::StartExchangeOp> begun);
  /// Begins with each piece, once the product has made its rows if there is
  /// one, and waits for all, or goes on with what is chained, and returns that.
  Operation *scatter(exec::ProductOp product);
  /// The product that makes what is scattered, if it can be cut.
  exec::ProductOp findScattered();
  SmallVector<exec::ProductOp> findGathered();

  /// The gather that is chained to this scatter, if all between the two can be
  /// cut.
  Operation *findChained();
  bool canSplit(exec::DispatchOp dispatch);
  void chain(exec::WaitExchangeOp arrival,
             ArrayRef<exec::StartExchangeOp> scattered);

  exec::StartExchangeOp start;
  exec::WaitExchangeOp wait;
  int64_t alignment;
  llvm::SetVector<exec::KernelOp> &cut;
  int64_t ranks, pieces;
  OpBuilder builder;
};

} // namespace

/// Whether any row of a buffer begins at a multiple of `bytes`.
bool ExchangeSplitter::isAligned(Value buffer, int64_t bytes) const {
  if (!buffer)
    return true;
  return exec::getTokenBytes(cast<MemRefType>(buffer.getType())) % bytes == 0;
}

/// Whether the product may run in parts up to `end`.
bool ExchangeSplitter::canSplit(exec::ProductOp product, Operation *end) const {
  for (Operation *op = product->getNextNode(); op != end;
       op = op->getNextNode())
    if (auto ends = dyn_cast<exec::EndOp>(op))
      if (llvm::is_contained(product->getOperands(), ends.getBuffer()))
        return false;
  return isAligned(product.getA(), alignment) &&
         isAligned(product.getAux(), alignment) &&
         isAligned(product.getC(), alignment);
}

Value ExchangeSplitter::getRows(Value buffer, int64_t first, int64_t end) {
  if (!buffer)
    return {};
  MemRefType type =
      exec::getTokensType(cast<MemRefType>(buffer.getType()), end - first);
  return exec::RowsOp::create(builder, start.getLoc(), type, buffer, first);
}

void ExchangeSplitter::createProduct(exec::ProductOp product, int64_t first,
                                     int64_t end) {
  Value a = getRows(product.getA(), first, end),
        aux = getRows(product.getAux(), first, end),
        c = getRows(product.getC(), first, end);
  exec::ProductOp::create(builder, product.getLoc(), a, product.getB(),
                          product.getBias(), aux, c, product.getTransB(),
                          product.getEpilogue(), product.getTf32(),
                          product.getFp8());
}

exec::StartExchangeOp ExchangeSplitter::createStart(int64_t round,
                                                    int64_t piece) {
  auto made = cast<exec::StartExchangeOp>(builder.clone(*start));
  made.setRound(round);
  made.setPiece(piece);
  made.setChained(false);
  return made;
}

exec::StartExchangeOp ExchangeSplitter::createOwnStart() {
  exec::StartExchangeOp made = createStart(0, 0);
  made.setPieces(1);
  return made;
}

//===----------------------------------------------------------------------===//
// What is gathered
//===----------------------------------------------------------------------===//

/// Products before the wait, which is moved in front of the first that cannot
/// be cut.
SmallVector<exec::ProductOp> ExchangeSplitter::findGathered() {
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
  return products;
}

void ExchangeSplitter::gather() {
  SmallVector<exec::ProductOp> products = findGathered();
  if (products.empty()) {
    // Other ranks may cut their products: all send the same pieces in the same
    // order.
    if (pieces > 1)
      scatter({});
    return;
  }
  SmallVector<exec::StartExchangeOp> begun;
  forEachPiece([&](int64_t round, int64_t piece) {
    begun.push_back(createStart(round, piece));
  });
  createWait(createOwnStart());
  for (exec::ProductOp product : products) {
    builder.setInsertionPoint(product);
    createProduct(product, getRank(0));
  }
  receive(products, begun);
}

void ExchangeSplitter::receive(ArrayRef<exec::ProductOp> products,
                               ArrayRef<exec::StartExchangeOp> begun) {
  builder.setInsertionPoint(wait);
  for (exec::StartExchangeOp piece : begun) {
    createWait(piece);
    for (exec::ProductOp product : products)
      createProduct(product, getRank(-int64_t(*piece.getRound())), piece);
  }
  wait.erase();
  start.erase();
  for (exec::ProductOp product : products)
    product.erase();
}

//===----------------------------------------------------------------------===//
// What is scattered
//===----------------------------------------------------------------------===//

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

Operation *ExchangeSplitter::scatter(exec::ProductOp product) {
  if (!product && pieces == 1)
    return nullptr;
  SmallVector<exec::StartExchangeOp> begun;
  forEachPiece([&](int64_t round, int64_t piece) {
    exec::StartExchangeOp made = createStart(round, piece);
    if (product) {
      builder.setInsertionPoint(made);
      createProduct(product, getRank(round), made);
      builder.setInsertionPointAfter(made);
    }
    begun.push_back(made);
  });
  if (product)
    createProduct(product, getRank(0));
  exec::StartExchangeOp own = createOwnStart();
  builder.setInsertionPoint(wait);
  Operation *chained = findChained();
  if (!chained)
    for (exec::StartExchangeOp piece : begun)
      createWait(piece);
  createWait(own);
  if (chained)
    ExchangeSplitter(cast<exec::StartExchangeOp>(chained), alignment, cut)
        .chain(wait, begun);
  wait.erase();
  start.erase();
  if (product)
    product.erase();
  return chained;
}

//===----------------------------------------------------------------------===//
// What is made of what was scattered, and gathered
//===----------------------------------------------------------------------===//

bool ExchangeSplitter::canSplit(exec::DispatchOp dispatch) {
  // Threads of a GPU read and write vectors of 16 bytes.
  constexpr int64_t vectorBytes = 16;
  return isTokenByToken(getKernel(dispatch), countOwnTokens()) &&
         llvm::all_of(dispatch.getArgs(), [&](Value buffer) {
           auto type = cast<MemRefType>(buffer.getType());
           return type.getRank() < 3 ||
                  isAligned(buffer, std::min(alignment, vectorBytes));
         });
}

Operation *ExchangeSplitter::findChained() {
  if (start.getKind() != zero::ExchangeKind::ScatterTokens)
    return nullptr;
  for (Operation *op = wait->getNextNode(); op; op = op->getNextNode()) {
    if (auto gather = dyn_cast<exec::StartExchangeOp>(op))
      return gather.getChained() ? gather.getOperation() : nullptr;
    auto dispatch = dyn_cast<exec::DispatchOp>(op);
    if (!isa<exec::BufferOp>(op) && !(dispatch && canSplit(dispatch)))
      return nullptr;
  }
  return nullptr;
}

void ExchangeSplitter::createDispatch(exec::DispatchOp dispatch, int64_t first,
                                      int64_t end) {
  exec::KernelOp kernel = getKernel(dispatch),
                 part = getKernelOfRows(kernel, countOwnTokens(), first, end);
  cut.insert(kernel);
  SmallVector<Value> arguments;
  for (auto [buffer, whole, rows] : llvm::zip_equal(
           dispatch.getArgs(), kernel.getBufferTypes(), part.getBufferTypes()))
    arguments.push_back(whole == rows ? buffer : getRows(buffer, first, end));
  exec::DispatchOp::create(builder, dispatch.getLoc(), TypeRange{},
                           part.getSymName(), arguments);
}

/// For a gather: instead of `arrival`, waits for the pieces that were
/// scattered, makes of each what is to be gathered, and sends it.
void ExchangeSplitter::chain(exec::WaitExchangeOp arrival,
                             ArrayRef<exec::StartExchangeOp> scattered) {
  SmallVector<exec::DispatchOp> dispatches;
  for (Operation &op : llvm::make_early_inc_range(llvm::make_range(
           std::next(arrival->getIterator()), start->getIterator())))
    if (auto dispatch = dyn_cast<exec::DispatchOp>(op))
      dispatches.push_back(dispatch);
    else
      op.moveBefore(arrival);
  SmallVector<exec::ProductOp> products = findGathered();
  // Buffers of what they give.
  for (exec::ProductOp product : products)
    for (Value buffer : product->getOperands())
      if (Operation *def = buffer.getDefiningOp();
          def && arrival->isBeforeInBlock(def))
        def->moveBefore(arrival);
  builder.setInsertionPoint(arrival);
  SmallVector<exec::StartExchangeOp> begun;
  const exec::StartExchangeOp *next = scattered.begin();
  int64_t own = getRank(0), first = start.getBounds()[own];
  for (int64_t piece = 0; piece < pieces; ++piece) {
    for (int64_t round = 1; round < ranks; ++round)
      createWait(*next++);
    exec::StartExchangeOp copied = createStart(0, piece);
    builder.setInsertionPoint(copied);
    for (exec::DispatchOp dispatch : dispatches)
      createDispatch(dispatch, copied.getFirst(own) - first,
                     copied.getEnd(own) - first);
    for (int64_t round = 1; round < ranks; ++round)
      begun.push_back(createStart(round, piece));
    builder.setInsertionPointAfter(copied);
    createWait(copied);
    for (exec::ProductOp product : products)
      createProduct(product, own, copied);
  }
  for (exec::DispatchOp dispatch : dispatches)
    dispatch.erase();
  receive(products, begun);
}

void poplar::splitProducts(ModuleOp module, int64_t alignment,
                           llvm::SetVector<exec::KernelOp> &cut) {
  for (auto function : module.getOps<exec::FunctionOp>()) {
    Operation *chained = nullptr;
    for (auto start : llvm::to_vector(
             function.getBody().front().getOps<exec::StartExchangeOp>()))
      if (start.getOperation() != chained)
        chained = ExchangeSplitter(start, alignment, cut).run();
  }
}

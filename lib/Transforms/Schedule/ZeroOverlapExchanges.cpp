//===- ZeroOverlapExchanges.cpp - Exchange tokens beside products ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Must happen before: rows of a product need the same rows of what is gathered,
// and what a rank gets of a sum needs the rows of all ranks' products. So a
// product of gathered tokens begins with the rank's own rows while the others'
// are on their way, and a product that is scattered ends with them (Wang et al.
// 2023, "Overlap communication with dependent computation via decomposition").
//
//   at once        compute        linear     |      linear
//                  link      GGGG            |              SSSS
//
//   overlapped     compute   own others      |   others own
//                  link      GGGG            |         SSSS
//
// Where the link is slow, the others' rows travel in pieces, so that their
// products hide it, too:
//
//   in pieces      compute   own  o t h e r s|   o t h e r s  own
//                  link      G G G G         |    S S S S
//
// What is scattered behind attention is added to the residual, normalised and
// gathered again, token by token. That, too, goes in pieces then, and the
// products of what is gathered begin with the pieces that have arrived. Before,
// the link stood still or the rank did:
//
//   chained        compute   o t h e r s own + o+w+n+ o t h e r s
//                  link          S S S S   G G G G
//
// Gradients of weights do not wait for what is scattered, and are computed
// meanwhile: the last half of them while the next tokens are gathered, if there
// is such a product, which may be a short one. One exchange is under way at a
// time, and the order of exchanges stays the same on all ranks.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/ZeroExchange.h"
#include "Poplar/Runtime/ABI.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROOVERLAPEXCHANGES
#include "Poplar/Transforms/Schedule/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

/// Ops that ranks wait for each other in stay in their order.
bool isBarrier(Operation &op) {
  return isa<zero::ExchangeOpInterface, zero::WaitExchangeOp>(op) ||
         op.hasTrait<OpTrait::IsTerminator>();
}

/// Adds to a running gradient, which nothing in the function reads.
bool isOfWeights(Operation &op) {
  return isa<nn::LinearGradWeightOp, nn::SumRowsOp>(op) &&
         llvm::all_of(op.getUsers(), [](Operation *user) {
           return user->hasTrait<OpTrait::IsTerminator>();
         });
}

bool isBefore(Value value, Operation *op) {
  Operation *def = value.getDefiningOp();
  return !def || def->isBeforeInBlock(op);
}

class ZeroOverlapExchangesPass
    : public poplar::impl::ZeroOverlapExchangesBase<ZeroOverlapExchangesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    zero::ProgramInfo info = zero::ProgramInfo::get(getOperation());
    bandwidth = info.sharersBandwidth;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      for (Operation &op : llvm::make_early_inc_range(function.front())) {
        if (auto gather = dyn_cast<zero::GatherTokensOp>(op))
          overlap(gather);
        else if (auto scatter = dyn_cast<zero::ScatterTokensOp>(op))
          overlap(scatter);
      }
      for (auto gather : function.front().getOps<zero::StartExchangeOp>())
        chain(gather);
      spreadGradients(function.front());
    }
  }

private:
  int64_t countPieces(RankedTensorType part, ArrayRef<int64_t> bounds);
  void overlap(zero::GatherTokensOp gather);
  void overlap(zero::ScatterTokensOp scatter);
  static void chain(zero::StartExchangeOp gather);
  static void spreadGradients(Block &block);
  static void delay(ArrayRef<Operation *> ops, ArrayRef<Operation *> others);

  /// Bytes a second between ranks; 0 if it is not known.
  double bandwidth = 0;
};

} // namespace

/// In how many pieces the tokens of each rank travel, the same on all ranks,
/// whose programs may be unlike: so what counts are the fewest tokens of one.
/// `row` is the type of tokens.
int64_t ZeroOverlapExchangesPass::countPieces(RankedTensorType row,
                                              ArrayRef<int64_t> bounds) {
  constexpr double leastSeconds = 25e-6;
  constexpr int64_t leastTokens = 4, mostPieces = 4;
  static_assert(mostPieces <= POPLAR_MAX_PIECES);
  if (bandwidth == 0)
    return 1;
  int64_t tokens = bounds.back();
  for (size_t rank = 1; rank < bounds.size(); ++rank)
    tokens = std::min(tokens, bounds[rank] - bounds[rank - 1]);
  double bytes = double(tokens) *
                 ShapedType::getNumElements(row.getShape().drop_front(2)) *
                 row.getElementTypeBitWidth() / 8;
  auto pieces =
      int64_t(std::min(bytes / bandwidth / leastSeconds, double(mostPieces)));
  return std::max<int64_t>(std::min(pieces, tokens / leastTokens), 1);
}

/// Moves `ops`, which stand together, down to the first op that reads what they
/// or `others` give, or to the next exchange.
void ZeroOverlapExchangesPass::delay(ArrayRef<Operation *> ops,
                                     ArrayRef<Operation *> others) {
  auto isGiven = [&](Value value) {
    Operation *def = value.getDefiningOp();
    return def &&
           (llvm::is_contained(ops, def) || llvm::is_contained(others, def));
  };
  Operation *place = ops.back()->getNextNode();
  while (!isBarrier(*place) && llvm::none_of(place->getOperands(), isGiven))
    place = place->getNextNode();
  for (Operation *op : ops)
    op->moveBefore(place);
}

void ZeroOverlapExchangesPass::overlap(zero::GatherTokensOp gather) {
  SmallVector<Operation *> products;
  for (Operation *op = gather->getNextNode(); !isBarrier(*op);
       op = op->getNextNode()) {
    auto linear = dyn_cast<nn::LinearOp>(op);
    if (linear && linear.getX() == gather.getResult() &&
        isBefore(linear.getWeight(), gather) &&
        (!linear.getBias() || isBefore(linear.getBias(), gather)))
      products.push_back(linear);
  }
  if (products.empty())
    return;
  OpBuilder builder(gather);
  auto start = zero::StartExchangeOp::create(
      builder, gather.getLoc(), gather->getResultTypes(),
      zero::ExchangeKind::GatherTokens, gather.getTokens(), ValueRange(),
      gather.getBounds(), gather.getPosition(),
      countPieces(gather.getType(), gather.getBounds()));
  auto wait = zero::WaitExchangeOp::create(builder, gather.getLoc(), start);
  for (Operation *product : products) {
    product->moveBefore(wait);
    cast<nn::LinearOp>(product).getXMutable().assign(start.getResult(0));
  }
  // What the unit returns lies where it arrives.
  gather.getResult().replaceUsesWithIf(start.getResult(0), [](OpOperand &use) {
    return use.getOwner()->hasTrait<OpTrait::IsTerminator>();
  });
  gather.getResult().replaceAllUsesWith(wait.getResult(0));
  gather.erase();
  delay({wait}, products);
}

void ZeroOverlapExchangesPass::overlap(zero::ScatterTokensOp scatter) {
  Value partial = scatter.getPartial();
  auto product = partial.getDefiningOp<nn::LinearOp>();
  if (product && !product->hasOneUse())
    product = nullptr;
  // Back to where it may begin, past gradients that need not come first.
  SmallVector<Operation *> meanwhile;
  Operation *begin = scatter;
  bool isReached = false;
  for (Operation *op = scatter->getPrevNode(); op && !isBarrier(*op);
       op = op->getPrevNode()) {
    if (isOfWeights(*op))
      meanwhile.push_back(op);
    if (partial.getDefiningOp() == op)
      isReached = true;
    else if (!isReached)
      begin = op;
  }
  if (!isReached)
    product = nullptr;
  if (!product && meanwhile.empty())
    return;
  OpBuilder builder(begin);
  SmallVector<Type> types(scatter.getBounds().size() - 1, scatter.getType());
  auto start = zero::StartExchangeOp::create(
      builder, scatter.getLoc(), types, zero::ExchangeKind::ScatterTokens,
      partial, product ? ValueRange(product.getX()) : ValueRange(),
      scatter.getBounds(), scatter.getPosition(),
      product ? countPieces(scatter.getType(), scatter.getBounds()) : 1);
  for (Operation *op : meanwhile)
    if (op->isBeforeInBlock(start))
      op->moveAfter(start);
  builder.setInsertionPoint(scatter);
  auto wait = zero::WaitExchangeOp::create(builder, scatter.getLoc(), start);
  auto sum = zero::SumExchangeOp::create(builder, scatter.getLoc(),
                                         scatter.getType(), wait.getResults());
  scatter.getResult().replaceAllUsesWith(sum.getSum());
  scatter.erase();
  delay({wait, sum}, {});
}

/// Whether all that `op` gives is computed for each of so many tokens of every
/// sample.
static bool isOfTokens(Operation *op, int64_t tokens) {
  return isMemoryEffectFree(op) &&
         llvm::all_of(op->getResultTypes(), [&](Type type) {
           auto tensor = dyn_cast<RankedTensorType>(type);
           return tensor && tensor.getRank() > 1 && tensor.isDynamicDim(0) &&
                  tensor.getDimSize(1) == tokens;
         });
}

/// Chains a gather to the scatter before it, if it gathers what is made of that
/// token by token. Of the ops between the two, those that it does not need go
/// behind its start.
void ZeroOverlapExchangesPass::chain(zero::StartExchangeOp gather) {
  if (gather.getKind() != zero::ExchangeKind::GatherTokens ||
      gather.getPieces() < 2)
    return;
  SmallVector<Operation *> needed, others;
  Operation *op = gather->getPrevNode();
  for (; op && !isBarrier(*op); op = op->getPrevNode()) {
    bool isNeeded = llvm::any_of(op->getUsers(), [&](Operation *user) {
      return user == gather || llvm::is_contained(needed, user);
    });
    (isNeeded ? needed : others).push_back(op);
  }
  auto wait = dyn_cast_or_null<zero::WaitExchangeOp>(op);
  zero::StartExchangeOp scatter = wait ? wait.getStart() : nullptr;
  int64_t tokens = gather.getValue().getType().getDimSize(1);
  if (!scatter || scatter.getKind() != zero::ExchangeKind::ScatterTokens ||
      scatter.getPieces() != gather.getPieces() ||
      scatter.getBounds() != gather.getBounds() || needed.empty() ||
      !llvm::all_of(needed,
                    [&](Operation *op) { return isOfTokens(op, tokens); }))
    return;
  for (Operation *other : others)
    other->moveAfter(gather);
  gather.setChained(true);
}

/// Leaves the first half of what is computed while tokens are scattered there,
/// and moves the rest behind the products that the next gathered tokens begin.
void ZeroOverlapExchangesPass::spreadGradients(Block &block) {
  for (auto scatter : block.getOps<zero::StartExchangeOp>()) {
    if (scatter.getKind() != zero::ExchangeKind::ScatterTokens)
      continue;
    SmallVector<Operation *> gradients;
    double flops = 0;
    Operation *op = scatter->getNextNode();
    for (; !isBarrier(*op); op = op->getNextNode())
      if (isOfWeights(*op)) {
        gradients.push_back(op);
        flops += cast<nn::CostOpInterface>(op).getCost().flops;
      }
    // Past its wait to the next exchange.
    if (isa<zero::WaitExchangeOp>(op))
      for (op = op->getNextNode(); !isBarrier(*op); op = op->getNextNode())
        ;
    auto gather = dyn_cast<zero::StartExchangeOp>(op);
    if (!gather || gather.getKind() != zero::ExchangeKind::GatherTokens)
      continue;
    while (!isBarrier(*op->getNextNode()))
      op = op->getNextNode();
    double left = 0;
    for (Operation *gradient : gradients) {
      if (left >= flops / 2) {
        gradient->moveAfter(op);
        op = gradient;
      }
      left += cast<nn::CostOpInterface>(gradient).getCost().flops;
    }
  }
}

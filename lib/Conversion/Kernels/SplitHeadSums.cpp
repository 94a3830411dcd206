//===- SplitHeadSums.cpp - Sums over heads in two stages ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gradient of a norm of heads adds up all tokens and all heads to the few
// columns of a head, which a GPU gives to few blocks. The tokens of a sample
// are added first, to columns of all heads:
//
//   partial[b, h, d] = sum over t of term(b, t * H + h, d)
//   result[d]        = initial[d] + sum over b and h of partial[b, h, d]
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace poplar {
#define GEN_PASS_DEF_SPLITHEADSUMS
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;
using utils::IteratorType;

/// The number of heads whose rows an operand's map reads as
/// (b, t floordiv heads, t mod heads * width + d); 0 if it reads no heads.
static int64_t getHeads(AffineMap map, int64_t width) {
  if (map.getNumResults() != 3)
    return 0;
  auto token = dyn_cast<AffineBinaryOpExpr>(map.getResult(1));
  if (!token || token.getKind() != AffineExprKind::FloorDiv)
    return 0;
  auto heads = dyn_cast<AffineConstantExpr>(token.getRHS());
  AffineExpr row = getAffineDimExpr(1, map.getContext()),
             column = getAffineDimExpr(2, map.getContext());
  if (!heads || token.getLHS() != row ||
      map.getResult(2) != row % heads.getValue() * width + column)
    return 0;
  return heads.getValue();
}

/// The heads that a sum of columns is over; 0 if it stays as it is.
static int64_t findHeads(linalg::GenericOp op) {
  SmallVector<IteratorType> iterators = op.getIteratorTypesArray();
  if (iterators.size() != 3 || iterators[0] != IteratorType::reduction ||
      iterators[1] != IteratorType::reduction ||
      iterators[2] != IteratorType::parallel || op->getNumResults() != 1)
    return 0;
  // What is added to the sum so far must not depend on it, nor on its place.
  auto add = op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  Value sum = op.getRegionOutputArgs()[0];
  if (!isa_and_nonnull<arith::AddFOp>(add) || !sum.hasOneUse() ||
      !llvm::is_contained(add->getOperands(), sum) || !sum.getType().isF32() ||
      !op.getBody()->getOps<linalg::IndexOp>().empty())
    return 0;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  int64_t heads = 0;
  for (OpOperand *input : op.getDpsInputOperands())
    if (int64_t found = getHeads(op.getMatchingIndexingMap(input), ranges[2])) {
      if (heads && heads != found)
        return 0;
      heads = found;
    }
  return heads && ranges[1] % heads == 0 ? heads : 0;
}

static void split(linalg::GenericOp op, int64_t heads) {
  OpBuilder builder(op);
  Location loc = op.getLoc();
  MLIRContext *context = op.getContext();
  int64_t width = op.getStaticLoopRanges()[2];
  AffineExpr b = getAffineDimExpr(0, context), t = getAffineDimExpr(1, context),
             c = getAffineDimExpr(2, context);
  AffineExpr head = c.floorDiv(width), column = c % width;
  // Loops over (b, t, c), c being a column of all heads.
  SmallVector<AffineMap> maps;
  Value batched;
  for (OpOperand *input : op.getDpsInputOperands()) {
    AffineMap map = op.getMatchingIndexingMap(input);
    if (getHeads(map, width)) {
      maps.push_back(AffineMap::get(3, 0, {b, t, c}, context));
      batched = input->get();
    } else {
      maps.push_back(
          map.replaceDimsAndSymbols({b, t * heads + head, column}, {}, 3, 0));
    }
  }
  maps.push_back(AffineMap::get(3, 0, {b, head, column}, context));
  Value samples = tensor::DimOp::create(builder, loc, batched, 0);
  Type f32 = builder.getF32Type();
  auto type = RankedTensorType::get({ShapedType::kDynamic, heads, width}, f32);
  Value empty = tensor::EmptyOp::create(builder, loc, type, samples);
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Value init = linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
  auto partial = linalg::GenericOp::create(
      builder, loc, TypeRange{type}, op.getInputs(), ValueRange{init}, maps,
      {IteratorType::parallel, IteratorType::reduction,
       IteratorType::parallel});
  partial.getRegion().takeBody(op.getRegion());
  // Loops over (b, h, d).
  auto total = linalg::GenericOp::create(
      builder, loc, op->getResultTypes(), ValueRange{partial.getResult(0)},
      op.getOutputs(),
      {AffineMap::getMultiDimIdentityMap(3, context),
       op.getMatchingIndexingMap(op.getDpsInitOperand(0))},
      op.getIteratorTypesArray(),
      [](OpBuilder &nested, Location at, ValueRange values) {
        Value sum = arith::AddFOp::create(nested, at, values[1], values[0],
                                          arith::FastMathFlags::reassoc);
        linalg::YieldOp::create(nested, at, sum);
      });
  op->replaceAllUsesWith(total);
  op.erase();
}

namespace {
struct SplitHeadSumsPass
    : public poplar::impl::SplitHeadSumsBase<SplitHeadSumsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<std::pair<linalg::GenericOp, int64_t>> found;
    getOperation().walk([&](linalg::GenericOp op) {
      if (int64_t heads = findHeads(op))
        found.emplace_back(op, heads);
    });
    for (auto [op, heads] : found)
      split(op, heads);
  }
};
} // namespace

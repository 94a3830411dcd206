//===- ZeroAsync.cpp - Split collectives in start and wait ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace poplar {
#define GEN_PASS_DEF_ZEROASYNC
#include "Poplar/Transforms/Schedule/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class ZeroAsyncPass : public poplar::impl::ZeroAsyncBase<ZeroAsyncPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (auto gather = dyn_cast<zero::AllGatherOp>(op))
        split(gather, gather.getBucketAttr(), gather.getWireAttr(), false, {},
              gather.getValues());
      else if (auto scatter = dyn_cast<zero::ReduceScatterOp>(op))
        split(scatter, scatter.getBucketAttr(), scatter.getWireAttr(),
              scatter.getUnscale(), scatter.getGradients(), {});
      else if (auto reduce = dyn_cast<zero::AllReduceOp>(op))
        split(reduce, reduce.getBucketAttr(), reduce.getWireAttr(),
              reduce.getUnscale(), {}, {});
    });
  }

private:
  static void split(zero::CollectiveOpInterface op, FlatSymbolRefAttr bucket,
                    TypeAttr wire, bool unscale, ValueRange gradients,
                    ValueRange values) {
    OpBuilder builder(op);
    auto start = zero::StartOp::create(
        builder, op.getLoc(), zero::TokenType::get(op.getContext()),
        op.getCollectiveKind(), bucket.getValue(), wire, unscale,
        /*transient=*/!values.empty(), gradients);
    auto wait = zero::WaitOp::create(builder, op.getLoc(), values.getTypes(),
                                     start.getToken());
    op->replaceAllUsesWith(wait->getResults());
    op->erase();
  }
};

} // namespace

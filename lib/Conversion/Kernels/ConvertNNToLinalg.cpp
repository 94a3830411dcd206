//===- ConvertNNToLinalg.cpp - Lower row-wise nn ops ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is not row-wise (products, attention, the scatter of embedding
// gradients) has no such lowering and stays for the runtime's kernels.
//
//===----------------------------------------------------------------------===//

#include "NNToLinalg.h"
#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace poplar {
#define GEN_PASS_DEF_CONVERTNNTOLINALG
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

struct LowerByInterface
    : OpInterfaceRewritePattern<nn::LinalgLoweringOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(nn::LinalgLoweringOpInterface op,
                                PatternRewriter &rewriter) const override {
    // --form-kernels names kernels by what their ops were.
    auto name = NameLoc::get(op->getName().getIdentifier(), op.getLoc());
    LinalgBuilder builder(rewriter, name);
    rewriter.replaceOp(op, op.lowerToLinalg(builder));
    return success();
  }
};

class ConvertNNToLinalgPass
    : public poplar::impl::ConvertNNToLinalgBase<ConvertNNToLinalgPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
      attachBalanceLowerings(*context);
      attachColumnLowerings(*context);
      attachElementwiseLowerings(*context);
      attachEmbeddingLowerings(*context);
      attachGroupLowerings(*context);
      attachLossLowerings(*context);
      attachNormLowerings(*context);
      attachRandomLowerings(*context);
    });
    registry.insert<zero::ZeroDialect>();
    registry.addExtension(+[](MLIRContext *context, zero::ZeroDialect *) {
      attachTensorParallelLowerings(*context);
    });
  }

  LogicalResult initialize(MLIRContext *context) override {
    RewritePatternSet set(context);
    set.add<LowerByInterface>(context);
    patterns = std::move(set);
    return success();
  }

  void runOnOperation() override {
    walkAndApplyPatterns(getOperation(), patterns);
  }

private:
  FrozenRewritePatternSet patterns;
};

} // namespace

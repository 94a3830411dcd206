//===- ExpandMath.cpp - Transcendental functions as polynomials -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/MathExtras.h"

namespace poplar {
#define GEN_PASS_DEF_EXPANDMATH
#include "Poplar/Conversion/Program/Passes.h.inc"
} // namespace poplar

using namespace mlir;

namespace {

/// exp(x) = exp2(x log2(e)), one rounding and the processor's error from the
/// true value.
struct ExpToExp2 : OpRewritePattern<math::ExpOp> {
  // Before the polynomial.
  explicit ExpToExp2(MLIRContext *context)
      : OpRewritePattern(context, /*benefit=*/2) {}

  LogicalResult matchAndRewrite(math::ExpOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getType().isF32())
      return failure();
    Value log2e = arith::ConstantOp::create(
        rewriter, op.getLoc(), rewriter.getF32FloatAttr(llvm::numbers::log2ef));
    Value scaled =
        arith::MulFOp::create(rewriter, op.getLoc(), op.getOperand(), log2e);
    // By its name: the conversion to NVVM refuses the op.
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr("llvm.exp2.f32"), scaled);
    return success();
  }
};

class ExpandMathPass : public poplar::impl::ExpandMathBase<ExpandMathPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathPolynomialApproximationPatterns(patterns);
    if (hasExp2)
      patterns.add<ExpToExp2>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

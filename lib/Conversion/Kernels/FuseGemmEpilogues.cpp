//===- FuseGemmEpilogues.cpp - GELU and bias gradients in products --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace poplar {
#define GEN_PASS_DEF_FUSEGEMMEPILOGUES
#include "Poplar/Conversion/Kernels/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// cuBLASLt wants rows of what GELU was given to start at multiples of 16
/// bytes.
static bool isAligned(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back() % 8 == 0;
}

/// linear, gelu -> linear_gelu, which also leaves what others read of the
/// product.
static bool fuse(IRRewriter &rewriter, nn::GeluOp gelu) {
  auto linear = gelu.getX().getDefiningOp<nn::LinearOp>();
  if (!linear || !linear.getBias() || gelu.getForm() != nn::GeluKind::Tanh ||
      linear->getBlock() != gelu->getBlock() || !isAligned(gelu.getResult()))
    return false;
  bool isRead = !linear.getResult().hasOneUse();
  rewriter.setInsertionPoint(linear);
  Type type = gelu.getResult().getType();
  auto fused = nn::LinearGeluOp::create(
      rewriter, gelu.getLoc(), type, isRead ? type : Type(), linear.getX(),
      linear.getWeight(), linear.getBias(), linear.getLayout());
  rewriter.replaceOp(gelu, fused.getResult());
  if (isRead)
    rewriter.replaceOp(linear, fused.getPre());
  else
    rewriter.eraseOp(linear);
  return true;
}

static bool fuse(IRRewriter &rewriter, nn::GeluGradOp grad) {
  auto linear = grad.getDy().getDefiningOp<nn::LinearOp>();
  if (!linear || linear.getBias() || !linear.getResult().hasOneUse() ||
      grad.getForm() != nn::GeluKind::Tanh || !isAligned(grad.getResult()))
    return false;
  rewriter.setInsertionPoint(grad);
  auto fused = nn::LinearGeluGradOp::create(
      rewriter, grad.getLoc(), grad.getResult().getType(), linear.getX(),
      linear.getWeight(), grad.getX(), linear.getLayout());
  rewriter.replaceOp(grad, fused.getResult());
  rewriter.eraseOp(linear);
  return true;
}

/// linear_grad_weight, sum_rows of the same gradient -> both at once. Of two
/// such sums, which there are where a gradient is that of two biases, the
/// first.
static bool fuse(IRRewriter &rewriter, nn::SumRowsOp sum) {
  for (Operation *user : sum.getDy().getUsers()) {
    auto weight = dyn_cast<nn::LinearGradWeightOp>(user);
    if (!weight || weight.getDy() != sum.getDy() ||
        weight->getBlock() != sum->getBlock() || !weight->isBeforeInBlock(sum))
      continue;
    // The product takes the place of the first of the two.
    Operation *acc = sum.getAcc().getDefiningOp();
    if (acc && acc->getBlock() == weight->getBlock() &&
        !acc->isBeforeInBlock(weight))
      continue;
    rewriter.setInsertionPoint(weight);
    auto fused = nn::LinearGradWeightBiasOp::create(
        rewriter, weight.getLoc(), weight.getResult().getType(),
        sum.getResult().getType(), weight.getDy(), weight.getX(),
        weight.getAcc(), sum.getAcc(), weight.getLayout());
    rewriter.replaceOp(weight, fused.getResult());
    rewriter.replaceOp(sum, fused.getBias());
    return true;
  }
  return false;
}

namespace {

class FuseGemmEpiloguesPass
    : public poplar::impl::FuseGemmEpiloguesBase<FuseGemmEpiloguesPass> {
public:
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](Operation *op) {
      // All erase the op at hand, and nothing that comes after it.
      if (auto gelu = dyn_cast<nn::GeluOp>(op))
        fuse(rewriter, gelu);
      else if (auto grad = dyn_cast<nn::GeluGradOp>(op))
        fuse(rewriter, grad);
      else if (auto sum = dyn_cast<nn::SumRowsOp>(op))
        fuse(rewriter, sum);
    });
  }
};

} // namespace

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
#include "mlir/IR/Remarks.h"

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

/// Reports whether `op` became part of a product; `obstacle` says why not, and
/// is empty if it did.
static bool report(Operation *op, StringRef obstacle) {
  auto options = [&](StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("fuse-gemm-epilogues")
        .function(op->getParentOfType<func::FuncOp>().getName());
  };
  if (obstacle.empty())
    remark::passed(op->getLoc(), options("EpilogueFused"))
        << remark::metric("Op", op->getName().getStringRef());
  else
    remark::missed(op->getLoc(), options("EpilogueNotFused"))
        << remark::metric("Op", op->getName().getStringRef())
        << remark::reason("{0}", obstacle);
  return obstacle.empty();
}

static StringRef findObstacle(nn::LinearOp linear, nn::GeluOp gelu) {
  if (!linear)
    return "its operand is not the result of nn.linear";
  if (!linear.getBias())
    return "the product has no bias";
  if (gelu.getForm() != nn::GeluKind::Tanh)
    return "cuBLASLt has no GELU by erf";
  if (linear->getBlock() != gelu->getBlock())
    return "the product is in another block";
  if (!isAligned(gelu.getResult()))
    return "a row is not a multiple of 8 elements";
  return "";
}

/// linear, gelu -> linear_gelu, which also leaves what others read of the
/// product.
static void fuse(IRRewriter &rewriter, nn::GeluOp gelu) {
  auto linear = gelu.getX().getDefiningOp<nn::LinearOp>();
  if (!report(gelu, findObstacle(linear, gelu)))
    return;
  bool isRead = !linear.getResult().hasOneUse();
  rewriter.setInsertionPoint(linear);
  Type type = gelu.getResult().getType();
  auto fused = nn::LinearGeluOp::create(rewriter, gelu.getLoc(), type,
                                        isRead ? type : Type(), linear.getX(),
                                        linear.getWeight(), linear.getBias(),
                                        linear.getLayout(), linear.getFp8());
  rewriter.replaceOp(gelu, fused.getResult());
  if (isRead)
    rewriter.replaceOp(linear, fused.getPre());
  else
    rewriter.eraseOp(linear);
}

static StringRef findObstacle(nn::LinearOp linear, nn::GeluGradOp grad) {
  if (!linear)
    return "its gradient is not the result of nn.linear";
  if (linear.getBias())
    return "the product has a bias";
  if (!linear.getResult().hasOneUse())
    return "the product has other readers";
  if (grad.getForm() != nn::GeluKind::Tanh)
    return "cuBLASLt has no GELU by erf";
  if (!isAligned(grad.getResult()))
    return "a row is not a multiple of 8 elements";
  return "";
}

static void fuse(IRRewriter &rewriter, nn::GeluGradOp grad) {
  auto linear = grad.getDy().getDefiningOp<nn::LinearOp>();
  if (!report(grad, findObstacle(linear, grad)))
    return;
  rewriter.setInsertionPoint(grad);
  auto fused = nn::LinearGeluGradOp::create(
      rewriter, grad.getLoc(), grad.getResult().getType(), linear.getX(),
      linear.getWeight(), grad.getX(), linear.getLayout(), linear.getFp8());
  rewriter.replaceOp(grad, fused.getResult());
  rewriter.eraseOp(linear);
}

static StringRef findObstacle(nn::LinearGradWeightOp weight,
                              nn::SumRowsOp sum) {
  if (weight.getDy() != sum.getDy())
    return "no product sums over the same gradient";
  if (weight->getBlock() != sum->getBlock() || !weight->isBeforeInBlock(sum))
    return "the product comes later, or is in another block";
  // The product takes the place of the first of the two.
  Operation *acc = sum.getAcc().getDefiningOp();
  if (acc && acc->getBlock() == weight->getBlock() &&
      !acc->isBeforeInBlock(weight))
    return "what it adds to is computed after the product";
  return "";
}

/// linear_grad_weight, sum_rows of the same gradient -> both at once. Of two
/// such sums, which there are where a gradient is that of two biases, the
/// first.
static void fuse(IRRewriter &rewriter, nn::SumRowsOp sum) {
  nn::LinearGradWeightOp weight;
  StringRef obstacle = "no product sums over the same gradient";
  for (Operation *user : sum.getDy().getUsers()) {
    weight = dyn_cast<nn::LinearGradWeightOp>(user);
    if (!weight)
      continue;
    obstacle = findObstacle(weight, sum);
    if (obstacle.empty())
      break;
  }
  if (!report(sum, obstacle))
    return;
  rewriter.setInsertionPoint(weight);
  auto fused = nn::LinearGradWeightBiasOp::create(
      rewriter, weight.getLoc(), weight.getResult().getType(),
      sum.getResult().getType(), weight.getDy(), weight.getX(), weight.getAcc(),
      sum.getAcc(), weight.getLayout());
  rewriter.replaceOp(weight, fused.getResult());
  rewriter.replaceOp(sum, fused.getBias());
}

namespace {

class FuseGemmEpiloguesPass
    : public poplar::impl::FuseGemmEpiloguesBase<FuseGemmEpiloguesPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](Operation *op) {
      // All erase the op at hand, and nothing that comes after it.
      if (auto gelu = dyn_cast<nn::GeluOp>(op))
        fuse(rewriter, gelu);
      else if (auto grad = dyn_cast<nn::GeluGradOp>(op))
        fuse(rewriter, grad);
      else if (auto sum = dyn_cast<nn::SumRowsOp>(op); sum && biasGradients)
        fuse(rewriter, sum);
    });
  }
};

} // namespace

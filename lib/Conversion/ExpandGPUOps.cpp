//===- ExpandGPUOps.cpp - What GPUs have no instruction for ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace poplar {
#define GEN_PASS_DEF_EXPANDGPUOPS
#include "Poplar/Transforms/Passes.h.inc"
} // namespace poplar

using namespace mlir;

namespace {

/// An operation of `math` that LLVM generates code for. The conversions of the
/// gpu dialect would call a function of the vendor's library instead.
template <typename Op> struct ToIntrinsic : OpRewritePattern<Op> {
  ToIntrinsic(MLIRContext *context, StringRef name)
      : OpRewritePattern<Op>(context), name(name) {}

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::CallIntrinsicOp>(
        op, op.getType(), rewriter.getStringAttr(name), op->getOperands());
    return success();
  }

  StringRef name;
};

/// The size of a block is known when the kernel is compiled.
struct FoldBlockDim : OpRewritePattern<gpu::BlockDimOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(gpu::BlockDimOp op,
                                PatternRewriter &rewriter) const override {
    auto function = op->getParentOfType<gpu::GPUFuncOp>();
    std::optional<ArrayRef<int32_t>> size = function.getKnownBlockSize();
    if (!size)
      return failure();
    rewriter.replaceOpWithNewOp<arith::ConstantIndexOp>(
        op, (*size)[static_cast<unsigned>(op.getDimension())]);
    return success();
  }
};

class ExpandGPUOpsPass
    : public poplar::impl::ExpandGPUOpsBase<ExpandGPUOpsPass> {
public:
  using Base::Base;

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    populateGpuAllReducePatterns(patterns);
    populateGpuLowerSubgroupReduceToShufflePatterns(patterns, subgroupSize);
    patterns.add<FoldBlockDim>(context);
    patterns.add<ToIntrinsic<math::AbsFOp>>(context, "llvm.fabs");
    patterns.add<ToIntrinsic<math::CopySignOp>>(context, "llvm.copysign");
    patterns.add<ToIntrinsic<math::FloorOp>>(context, "llvm.floor");
    patterns.add<ToIntrinsic<math::FmaOp>>(context, "llvm.fma");
    patterns.add<ToIntrinsic<math::SqrtOp>>(context, "llvm.sqrt");
    auto kernels =
        SymbolTable(getOperation()).lookup<gpu::GPUModuleOp>("kernels");
    if (kernels && failed(applyPatternsGreedily(kernels, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

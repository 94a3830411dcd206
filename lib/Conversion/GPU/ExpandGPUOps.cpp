//===- ExpandGPUOps.cpp - What GPUs have no instruction for ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/GPU/Utils/GPUUtils.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace poplar {
#define GEN_PASS_DEF_EXPANDGPUOPS
#include "Poplar/Conversion/GPU/Passes.h.inc"
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

/// A reduction over a block: that of each subgroup, whose first lane stores it;
/// then every thread combines these in the order of the subgroups. No word has
/// two writers. (MLIR's own pattern lets all lanes of the first subgroup store
/// the result to one word, some of them a part of it where the number of
/// subgroups is no power of two.)
struct ExpandAllReduce : OpRewritePattern<gpu::AllReduceOp> {
  ExpandAllReduce(MLIRContext *context, int64_t subgroup)
      : OpRewritePattern<gpu::AllReduceOp>(context), subgroup(subgroup) {}

  LogicalResult matchAndRewrite(gpu::AllReduceOp op,
                                PatternRewriter &rewriter) const override {
    auto function = op->getParentOfType<gpu::GPUFuncOp>();
    std::optional<ArrayRef<int32_t>> size = function.getKnownBlockSize();
    if (!op.getOp() || !op.getUniform() || !size || (*size)[0] % subgroup ||
        (*size)[1] != 1 || (*size)[2] != 1)
      return rewriter.notifyMatchFailure(
          op, "not an operation of whole subgroups of a row of threads");
    Location loc = op.getLoc();
    int64_t parts = (*size)[0] / subgroup;
    auto space = gpu::AddressSpaceAttr::get(
        rewriter.getContext(), gpu::GPUDialect::getWorkgroupAddressSpace());
    // LLVM loads words in fours, the last of which may be beyond `parts`: there
    // is memory for them, and they are aligned as such a load has to be.
    auto type =
        MemRefType::get({int64_t(llvm::alignTo(parts, 4))}, op.getType(),
                        MemRefLayoutAttrInterface(), space);
    Value shared = function.addWorkgroupAttribution(type, loc);
    poplar::alignLastAttribution(function);
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantIndexOp::create(rewriter, loc, value);
    };
    Value part = gpu::SubgroupReduceOp::create(rewriter, loc, op.getValue(),
                                               *op.getOp(), true);
    Value thread = gpu::ThreadIdOp::create(rewriter, loc, gpu::Dimension::x);
    Value width = constant(subgroup);
    Value lane = arith::RemUIOp::create(rewriter, loc, thread, width);
    Value isFirst = arith::CmpIOp::create(
        rewriter, loc, arith::CmpIPredicate::eq, lane, constant(0));
    auto guard = scf::IfOp::create(rewriter, loc, isFirst);
    {
      OpBuilder::InsertionGuard outside(rewriter);
      rewriter.setInsertionPointToStart(guard.thenBlock());
      Value number = arith::DivUIOp::create(rewriter, loc, thread, width);
      memref::StoreOp::create(rewriter, loc, part, shared, number);
    }
    gpu::BarrierOp::create(rewriter, loc);
    Value total = memref::LoadOp::create(rewriter, loc, shared, constant(0));
    for (int64_t i = 1; i < parts; ++i)
      total = vector::makeArithReduction(
          rewriter, loc, gpu::convertReductionKind(*op.getOp()), total,
          memref::LoadOp::create(rewriter, loc, shared, constant(i)));
    // Where the op is in a loop, nobody writes before all have read.
    gpu::BarrierOp::create(rewriter, loc);
    rewriter.replaceOp(op, total);
    return success();
  }

  int64_t subgroup;
};

class ExpandGPUOpsPass
    : public poplar::impl::ExpandGPUOpsBase<ExpandGPUOpsPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registry.insert<scf::SCFDialect>();
  }

  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet patterns(context);
    patterns.add<ExpandAllReduce>(context, subgroupSize);
    populateGpuLowerSubgroupReduceToShufflePatterns(patterns, subgroupSize);
    populateGpuLowerClusteredSubgroupReduceToShufflePatterns(patterns,
                                                             subgroupSize);
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

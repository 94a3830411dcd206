//===- LowerProgram.cpp - Calls on buffers to calls -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every exec.function becomes a function of pointers:
//
//   unit: (context, scratch, batch, buffers...)
//   step: (context, arena, batch)
//   turn: (context, arena, ports, batch)
//
// Buffers become addresses; kernels are started through poplar_rt_dispatch,
// products through poplar_rt_gemm, collectives through poplar_rt_start and
// poplar_rt_wait (Runtime/ABI.h). Where --map-kernels-to-gpu has made kernels
// for a GPU, those are started, through poplar_rt_launch.
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/Program/FunctionLowering.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "Poplar/Conversion/Program/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

namespace {

class LowerProgramPass
    : public poplar::impl::LowerProgramBase<LowerProgramPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerProgramCalls(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (!getArena(module)) {
      module.emitError("has no exec.arena: run --plan-memory first");
      return signalPassFailure();
    }
    ModuleContext shared(module, capability);
    for (auto kernel : module.getOps<exec::KernelOp>())
      if (shared.gpuKernels.exists() &&
          !shared.gpuKernels.knows(kernel.getName())) {
        kernel.emitOpError("has no exec.gpu_kernel: run --map-kernels-to-gpu");
        return signalPassFailure();
      }
    Type pointer = shared.pointer, i64 = shared.i64;
    shared.declare("poplar_rt_dispatch",
                   {pointer, pointer, pointer, i64, i64, i64});
    shared.declare("poplar_rt_launch", {pointer, i64, pointer, i64, i64});
    shared.declare("poplar_rt_gemm", {pointer, pointer, pointer, pointer,
                                      pointer, pointer, pointer, i64});
    shared.declare("poplar_rt_start", {pointer, pointer, pointer});
    shared.declare("poplar_rt_wait", {pointer, pointer});
    shared.declare("poplar_rt_send", {pointer, i64});
    shared.declare("poplar_rt_receive", {pointer, i64});
    shared.declare("poplar_rt_exchange", {pointer, pointer, pointer, i64});
    shared.declare("poplar_rt_start_exchange",
                   {pointer, pointer, pointer, i64, i64, i64});
    shared.declare("poplar_rt_wait_exchange", {pointer, pointer, i64, i64});
    shared.declare("poplar_rt_zero", {pointer, pointer, i64});
    shared.declare("poplar_rt_poison", {pointer, pointer, i64});
    shared.declare("poplar_rt_unscale", {pointer, i64, pointer});
    shared.declare("poplar_rt_norm", {pointer, i64});
    shared.declare("poplar_rt_adamw", {pointer, i64});
    for (auto function : module.getOps<exec::FunctionOp>())
      if (failed(FunctionLowering(function, shared, trapDeadRanges).run()))
        return signalPassFailure();
    shared.listProducts();
    // Parameters and buckets are places in the arena now.
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (isa<exec::ExecDialect>(op.getDialect()) ||
          isa<nn::ParameterOp, nn::TrainingCostOp, zero::BucketOp, zero::PlanOp,
              zero::ProgramOp>(op))
        op.erase();
    if (shared.gpuKernels.exists())
      shared.gpuKernels.finish();
  }
};

} // namespace

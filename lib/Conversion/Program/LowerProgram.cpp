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
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {
#define GEN_PASS_DEF_LOWERPROGRAM
#include "Poplar/Conversion/Program/Passes.h.inc"
} // namespace poplar

using namespace mlir;
using namespace poplar;

/// Names the lowered functions in the table, and adds the lists of products.
static void completeTable(exec::ProgramOp program, ModuleContext &shared) {
  MLIRContext *context = program.getContext();
  bool isForGPU = shared.gpuKernels.exists();
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FlatSymbolRefAttr name) -> Attribute {
    auto kernel = shared.symbols.lookup<exec::KernelOp>(name.getAttr());
    // The image has kernels of a GPU.
    if (kernel && isForGPU)
      return UnitAttr::get(context);
    return FlatSymbolRefAttr::get(context,
                                  kernel ? getKernelBodyName(name.getValue())
                                         : getStepName(name.getValue()));
  });
  program.setTableAttr(
      cast<exec::RecordAttr>(replacer.replace(program.getTable())));
  for (auto [field, symbol] :
       {std::pair("gemms", kProductsSymbol),
        std::pair("decoding_gemms", kDecodingProductsSymbol)})
    if (shared.module.lookupSymbol(symbol))
      program.setField(field, FlatSymbolRefAttr::get(context, symbol));
}

namespace {

class LowerProgramPass
    : public poplar::impl::LowerProgramBase<LowerProgramPass> {
public:
  using Base::Base;

  void getDependentDialects(DialectRegistry &registry) const override {
    Base::getDependentDialects(registry);
    registerProgramCalls(registry);
    registerRecurrentCalls(registry);
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
#define POPLAR_ENTRY(F, ...) shared.declareEntry<decltype(F)>(#F);
#include "Poplar/Runtime/EntryPoints.def"
    for (auto function : module.getOps<exec::FunctionOp>())
      if (failed(FunctionLowering(function, shared, trapDeadRanges).run()))
        return signalPassFailure();
    shared.listProducts();
    for (auto program : module.getOps<exec::ProgramOp>())
      completeTable(program, shared);
    // Parameters and buckets are places in the arena now.
    for (Operation &op : llvm::make_early_inc_range(*module.getBody()))
      if (isa<exec::ProgramOp>(op))
        continue;
      else if (isa<exec::ExecDialect>(op.getDialect()) ||
               isa<nn::ParameterOp, nn::TrainingCostOp, zero::BucketOp,
                   zero::PlanOp, zero::ProgramOp>(op))
        op.erase();
    if (shared.gpuKernels.exists())
      shared.gpuKernels.finish();
  }
};

} // namespace

//===- HostPipeline.cpp - From the model to the llvm dialect --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Passes.h"
#include "Poplar/Planner/Model/Roofline.h"
#include "Poplar/Target/GPU.h"
#include "Poplar/Target/Host.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace poplar;

namespace {

struct PlanPipelineOptions : PassPipelineOptions<PlanPipelineOptions> {
  Option<std::string> precision{
      *this, "precision", llvm::cl::desc("f32 or bf16"), llvm::cl::init("f32")};
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("keep, recompute-attention or recompute-unit"),
      llvm::cl::init("keep")};
  Option<int64_t> workspaceBytes{
      *this, "workspace-bytes",
      llvm::cl::desc("scratch of the libraries; below 0, as much as the "
                     "library at hand asks for"),
      llvm::cl::init(-1)};
};

} // namespace

void poplar::buildPlanPipeline(OpPassManager &pm, const HostOptions &options) {
  pm.addPass(createZeroFormBuckets({options.bucketBytes}));
  buildSchedulePipeline(pm, options);
  buildMemoryPipeline(pm, options);
}

LogicalResult poplar::setTarget(HostOptions &options, StringRef target) {
  struct Host {
    StringLiteral target, cpu, isa;
  };
  static constexpr Host hosts[] = {
      {"host", "native", ""},
      {"host:amx-bf16", "sapphirerapids", "AVX512_CORE_AMX"},
      {"host:avx512-f32", "x86-64-v4", "AVX512_CORE"},
      {"host:avx2-f32", "x86-64-v3", "AVX2"},
      {"host:f16-storage", "x86-64-v3", "AVX2"},
      {"host:sse41-f32", "x86-64-v2", "SSE41"},
  };
  StringRef chip = target;
  if (chip.consume_front("cuda:") && findGPUChip(chip)) {
    // The CPU beside a GPU only starts things.
    options.cpu = llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86()
                      ? "x86-64"
                      : "generic";
    options.chip = chip.str();
    options.workspaceBytes = getRooflineConstants(target.str()).workspaceBytes;
    return success();
  }
  const Host *host = llvm::find_if(
      hosts, [&](const Host &host) { return host.target == target; });
  if (host == std::end(hosts))
    return failure();
  options.cpu = host->cpu.str();
  options.isa = host->isa.str();
  return success();
}

std::string HostOptions::getKernelLibrary() const {
  return libraryDirectory +
         (chip.empty() ? "/poplar/kernels.bc" : "/poplar/kernels-nvptx.bc");
}

std::string HostOptions::getRuntimeLibrary() const {
  return libraryDirectory + (chip.empty() ? "/libpoplar_runtime_host.a"
                                          : "/libpoplar_runtime_cuda.a");
}

void poplar::buildSchedulePipeline(OpPassManager &pm,
                                   const HostOptions &options) {
  // Model level to train level.
  pm.addPass(createAnnotateCost());
  if (options.storesOnly)
    pm.addPass(createNNStoreActivations({options.precision}));
  else if (options.precision != "f32")
    pm.addPass(createNNConvertPrecision({options.precision}));
  pm.addPass(createZeroCutStages());
  pm.addPass(createZeroShardUnits());
  pm.addPass(createNNDifferentiate({options.recompute}));
  pm.addPass(createAddOptimizer());
  pm.addPass(createZeroSplitTurns());
  pm.addPass(createZeroMaterialize());
  pm.addPass(createZeroVerify());
  if (options.overlap) {
    pm.addPass(createZeroAsync());
    pm.addPass(createZeroPrefetch({options.overlapDepth}));
    pm.addPass(createZeroDelayWaits({options.overlapDepth}));
    pm.addPass(createZeroVerify());
  }
}

void poplar::chooseScheduleOptions(ModuleOp program, HostOptions &options) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  options.precision = getStorageFormat(info.precision);
  options.storesOnly = info.getWorkingFormat() != options.precision;
  options.recompute = info.recompute;
}

LogicalResult poplar::schedulePrograms(ModuleOp module,
                                       const HostOptions &options,
                                       TimingScope &timing) {
  auto run = [&](ModuleOp target,
                 llvm::function_ref<void(OpPassManager &)> build) {
    PassManager pm(module.getContext());
    pm.enableTiming(timing);
    build(pm);
    return pm.run(target);
  };
  if (failed(run(module, [](OpPassManager &pm) {
        pm.addPass(createSpecializeDeviceTypes());
      })))
    return failure();
  for (auto program : module.getOps<ModuleOp>()) {
    HostOptions own = options;
    chooseScheduleOptions(program, own);
    if (failed(run(program,
                   [&](OpPassManager &pm) { buildSchedulePipeline(pm, own); })))
      return failure();
  }
  return run(module, [](OpPassManager &pm) {
    pm.addPass(createZeroVerify());
    pm.addPass(createZeroVerifyStages());
  });
}

void poplar::buildKernelPipeline(OpPassManager &pm,
                                 const HostOptions &options) {
  pm.addPass(createCSEPass());
  if (!options.chip.empty() && options.fuseEpilogues)
    pm.addPass(createFuseGemmEpilogues());
  // Everything by rows becomes loops...
  pm.addPass(createConvertNNToLinalg());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createLinalgElementwiseOpFusionPass());
  pm.addPass(createCSEPass());
  // ...in as few kernels as can be.
  pm.addPass(createFormKernels());
}

void poplar::addPlanMemory(OpPassManager &pm, const HostOptions &options) {
  PlanMemoryOptions memory;
  memory.threads = options.threads;
  memory.maxBatch = options.maxBatch;
  memory.workspaceBytes = options.workspaceBytes;
  pm.addPass(createPlanMemory(memory));
  pm.addPass(createExecVerify());
}

void poplar::buildMemoryPipeline(OpPassManager &pm,
                                 const HostOptions &options) {
  buildKernelPipeline(pm, options);
  addPlanMemory(pm, options);
}

void poplar::buildLoweringPipeline(OpPassManager &pm,
                                   const HostOptions &options) {
  LowerProgramOptions program;
  program.trapDeadRanges = options.trapDeadRanges;
  if (options.chip.empty()) {
    pm.addPass(createLowerKernels());
  } else {
    std::optional<GPUChip> gpu = findGPUChip(options.chip);
    pm.addPass(createMapKernelsToGPU({gpu->subgroupSize}));
    program.capability = gpu->getCapability();
  }
  pm.addPass(createLowerProgram(program));
  pm.addPass(createCSEPass());
  pm.addPass(createExpandMath());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

void poplar::registerHostPipelines() {
  PassPipelineRegistration<PlanPipelineOptions>(
      "poplar-plan", "From the model level to the memory plan",
      [](OpPassManager &pm, const PlanPipelineOptions &options) {
        HostOptions host;
        host.precision = options.precision;
        host.recompute = options.recompute;
        host.workspaceBytes = options.workspaceBytes;
        buildPlanPipeline(pm, host);
      });
  PassPipelineRegistration<>(
      "poplar-lower", "From the memory plan to the llvm dialect",
      [](OpPassManager &pm) { buildLoweringPipeline(pm, HostOptions()); });
}

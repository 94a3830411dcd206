//===- Pipelines.cpp - From the model to the llvm dialect -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Conversion/Kernels/Passes.h"
#include "Poplar/Conversion/Memory/Passes.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Planner/Cluster/Roofline.h"
#include "Poplar/Target/AttentionChoice.h"
#include "Poplar/Target/Build.h"
#include "Poplar/Target/GPU.h"
#include "Poplar/Transforms/Model/Decodable.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "Poplar/Transforms/Plan/Passes.h"
#include "Poplar/Transforms/Schedule/Passes.h"
#include "Poplar/Transforms/Zero/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
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
  Option<NumberFormat> precision{*this, "precision",
                                 llvm::cl::desc("f32, bf16 or f16"),
                                 llvm::cl::init(NumberFormat::F32)};
  Option<Recomputation> recompute{
      *this, "recompute",
      llvm::cl::desc("keep, recompute-attention or recompute-unit; the latter "
                     "two with :N for the first N layers alone"),
      llvm::cl::init(Recomputation())};
  Option<int64_t> workspaceBytes{
      *this, "workspace-bytes",
      llvm::cl::desc("scratch of the libraries; below 0, as much as the "
                     "library at hand asks for"),
      llvm::cl::init(-1)};
  Option<bool> decoding{
      *this, "decoding",
      llvm::cl::desc("also make functions for sampling with caches"),
      llvm::cl::init(false)};
};

} // namespace

ArrayRef<StringLiteral> poplar::getIRLevelNames() {
  static constexpr StringLiteral names[] = {"model",   "train",  "zero",
                                            "kernels", "memory", "llvm"};
  return names;
}

void poplar::buildBucketPipeline(OpPassManager &pm,
                                 const BuildOptions &options) {
  pm.addPass(createZeroFormBuckets({options.bucketBytes}));
}

void poplar::buildPlanPipeline(OpPassManager &pm, const BuildOptions &options) {
  buildBucketPipeline(pm, options);
  buildSchedulePipeline(pm, options);
  buildMemoryPipeline(pm, options);
}

LogicalResult poplar::setTarget(BuildOptions &options, StringRef target) {
  const TargetInfo *info = findTargetInfo(target);
  if (!info || info->getKind().runtime.empty())
    return failure();
  options.kind = &info->getKind();
  if (options.kind->isHost()) {
    options.cpu = info->processor;
    options.isa = info->isa;
    return success();
  }
  // The CPU beside a GPU only starts things.
  options.cpu = llvm::Triple(llvm::sys::getDefaultTargetTriple()).isX86()
                    ? "x86-64"
                    : "generic";
  options.chip = info->getChip();
  options.libraryAttention =
      chooseAttention(options.attention,
                      findGPUChip(options.chip)->getCapability())
          .isLibrary;
  options.workspaceBytes = getRooflineConstants(target.str()).workspaceBytes;
  return success();
}

std::string CodeOptions::getKernelLibrary() const {
  return libraryDirectory + "/" + std::string(kind->kernels);
}

std::string CodeOptions::getRuntime() const {
  return libraryDirectory + "/" + std::string(kind->runtime);
}

void poplar::buildSchedulePipeline(OpPassManager &pm,
                                   const ScheduleOptions &options,
                                   IRLevel last) {
  if (last < IRLevel::Train)
    return;
  pm.addPass(createAnnotateCost());
  if (options.storesOnly)
    pm.addPass(createNNStoreActivations({options.precision}));
  else if (options.precision != NumberFormat::F32)
    pm.addPass(createNNConvertPrecision({options.precision}));
  pm.addPass(createZeroCutStages());
  pm.addPass(createZeroShardUnits());
  pm.addPass(createNNDifferentiate({options.recompute}));
  if (options.decoding)
    pm.addPass(createNNAddDecoding());
  if (last < IRLevel::Zero)
    return;
  pm.addPass(createAddOptimizer());
  pm.addPass(createZeroSplitTurns());
  pm.addPass(createZeroMaterialize());
  pm.addPass(createZeroVerify());
  if (options.overlap) {
    pm.addPass(createZeroAsync());
    pm.addPass(createZeroPrefetch({options.overlapDepth}));
    pm.addPass(createZeroDelayWaits({options.overlapDepth}));
    pm.addPass(createZeroOverlapExchanges());
    pm.addPass(createZeroVerify());
  }
}

void poplar::chooseScheduleOptions(ModuleOp program, ScheduleOptions &options) {
  zero::ProgramInfo info = zero::ProgramInfo::get(program);
  options.precision = getStorageFormat(info.precision);
  options.storesOnly = info.getWorkingFormat() != options.precision;
  options.recompute = info.recompute;
}

/// Whether all programs of a job can sample with caches: the model has no ops
/// that need whole sequences.
static bool canDecode(ModuleOp module) {
  auto programs = module.getOps<ModuleOp>();
  return !programs.empty() && llvm::none_of(programs, [](ModuleOp program) {
    return findUndecodable(program, nn::Entry::Model);
  });
}

LogicalResult poplar::schedulePrograms(ModuleOp module,
                                       const OverlapOptions &options,
                                       TimingScope &timing, IRLevel last,
                                       bool isChecked) {
  auto run = [&](ModuleOp target,
                 llvm::function_ref<void(OpPassManager &)> build) {
    PassManager pm(module.getContext());
    pm.enableTiming(timing);
    pm.enableVerifier(isChecked);
    build(pm);
    return pm.run(target);
  };
  if (failed(run(module, [](OpPassManager &pm) {
        pm.addPass(createSpecializeDeviceTypes());
      })))
    return failure();
  bool decoding = options.decoding && canDecode(module);
  for (auto program : module.getOps<ModuleOp>()) {
    ScheduleOptions own{options};
    own.decoding = decoding;
    chooseScheduleOptions(program, own);
    if (failed(run(program, [&](OpPassManager &pm) {
          buildSchedulePipeline(pm, own, last);
        })))
      return failure();
  }
  if (last < IRLevel::Zero || !isChecked)
    return success();
  return run(module, [](OpPassManager &pm) {
    pm.addPass(createZeroVerify());
    pm.addPass(createZeroVerifyStages());
  });
}

LogicalResult poplar::scheduleCandidate(ModuleOp module,
                                        const OverlapOptions &options) {
#ifdef NDEBUG
  constexpr bool isChecked = false;
#else
  constexpr bool isChecked = true;
#endif
  TimingScope untimed;
  return schedulePrograms(module, options, untimed, IRLevel::Zero, isChecked);
}

void poplar::buildKernelPipeline(OpPassManager &pm,
                                 const CodeOptions &options) {
  pm.addPass(createCSEPass());
  if (!options.chip.empty()) {
    pm.addPass(createPadLogits());
    std::optional<GPUChip> gpu = findGPUChip(options.chip);
    if (options.fuseEpilogues)
      pm.addPass(createFuseGemmEpilogues(
          {/*biasGradients=*/gpu->getCapability() < 90}));
  }
  // Everything by rows becomes loops...
  pm.addPass(createConvertNNToLinalg());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createLinalgElementwiseOpFusionPass());
  pm.addPass(createCSEPass());
  pm.addPass(createMergeUnitResults());
  if (!options.chip.empty())
    pm.addPass(createSplitHeadSums());
  // ...in as few kernels as can be.
  pm.addPass(createFormKernels());
}

void poplar::addPlanMemory(OpPassManager &pm, const ScratchOptions &options) {
  PlanMemoryOptions memory;
  memory.threads = options.threads;
  memory.maxBatch = options.maxBatch;
  memory.workspaceBytes = options.workspaceBytes;
  memory.libraryAttention = options.libraryAttention;
  pm.addPass(createPlanMemory(memory));
  pm.addPass(createExecVerify());
}

void poplar::buildMemoryPipeline(OpPassManager &pm,
                                 const BuildOptions &options) {
  buildKernelPipeline(pm, options);
  addPlanMemory(pm, options);
}

void poplar::buildLoweringPipeline(OpPassManager &pm,
                                   const CodeOptions &options) {
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

void poplar::registerPipelines() {
  PassPipelineRegistration<PlanPipelineOptions>(
      "poplar-plan", "From the model level to the memory plan",
      [](OpPassManager &pm, const PlanPipelineOptions &options) {
        BuildOptions host;
        host.precision = options.precision;
        host.recompute = options.recompute;
        host.workspaceBytes = options.workspaceBytes;
        host.decoding = options.decoding;
        pm.addPass(createNNVerifyConfig());
        buildPlanPipeline(pm, host);
      });
  PassPipelineRegistration<>(
      "poplar-lower", "From the memory plan to the llvm dialect",
      [](OpPassManager &pm) { buildLoweringPipeline(pm, CodeOptions()); });
}

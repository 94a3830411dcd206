//===- GPUPipeline.cpp - From kernels to the llvm dialect -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Conversion/GPU/Passes.h"
#include "Poplar/Conversion/Program/Passes.h"
#include "Poplar/Target/GPU.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/GPUToROCDL/GPUToROCDLPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace poplar;

namespace {
struct GPUPipelineOptions : PassPipelineOptions<GPUPipelineOptions> {
  Option<std::string> chip{*this, "chip", llvm::cl::desc("sm_80, gfx90a, ..."),
                           llvm::cl::init("sm_80")};
};
} // namespace

void poplar::buildGPUKernelPipeline(OpPassManager &pm, const GPUChip &chip) {
  pm.addPass(createMapKernelsToGPU({chip.subgroupSize}));
  // But for exp, the arithmetic is that of hosts; no library of functions is
  // linked.
  pm.addPass(createExpandMath({/*hasExp2=*/true}));
  pm.addPass(createExpandGPUOps({chip.subgroupSize}));
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createSCFToControlFlowPass());
  SmallVector<std::string> dialects = {"arith", "cf", "memref"};
  if (chip.isNVIDIA()) {
    ConvertGpuOpsToNVVMOpsOptions options;
    options.allowedDialects = dialects;
    kernels.addPass(createConvertGpuOpsToNVVMOps(options));
  } else {
    ConvertGpuOpsToROCDLOpsOptions options;
    options.chipset = chip.name;
    options.allowedDialects = dialects;
    kernels.addPass(createConvertGpuOpsToROCDLOps(options));
  }
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createConvertIndexToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
}

using ErrorHandler = llvm::function_ref<LogicalResult(const llvm::Twine &)>;

static LogicalResult addPipeline(OpPassManager &pm, StringRef text,
                                 ErrorHandler report) {
  GPUPipelineOptions options;
  if (failed(options.parseFromString(text)))
    return failure();
  std::optional<GPUChip> chip = findGPUChip(options.chip);
  if (!chip)
    return report("unknown chip '" + llvm::Twine(options.chip) +
                  "'; there are " + llvm::join(listGPUChips(), ", "));
  buildGPUKernelPipeline(pm, *chip);
  return success();
}

void poplar::registerGPUPipelines() {
  // PassPipelineRegistration could not refuse a chip.
  registerPassPipeline(
      "poplar-lower-gpu", "From kernels to the llvm dialect, for a GPU",
      addPipeline,
      [](llvm::function_ref<void(const detail::PassOptions &)> handle) {
        handle(GPUPipelineOptions());
      });
}

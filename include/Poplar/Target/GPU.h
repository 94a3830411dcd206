//===- GPU.h - Kernels for GPUs ---------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_GPU_H
#define POPLAR_TARGET_GPU_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>

namespace poplar {

struct GPUKernel;

/// A chip that kernels are generated for, as the table of targets has it.
struct GPUChip {
  /// "sm_80", "gfx90a".
  std::string name;
  /// LLVM's target triple and features; for NVIDIA's, the version of PTX.
  std::string triple, features;
  /// Threads that run in step.
  int64_t subgroupSize;

  bool isNVIDIA() const { return llvm::StringRef(name).starts_with("sm_"); }
  /// 80 for "sm_80"; 0 for AMD's.
  int getCapability() const;
};

/// The chip of that name; none if it is not known.
std::optional<GPUChip> findGPUChip(llvm::StringRef name);
/// The names of all, in order.
std::vector<std::string> listGPUChips();

/// Takes the kernels of a planned module (--form-kernels) to the module
/// @kernels, in the llvm dialect.
void buildGPUKernelPipeline(mlir::OpPassManager &pm, const GPUChip &chip);

/// Registers that as `--poplar-lower-gpu=chip=NAME`.
void registerGPUPipelines();

/// Writes the assembly of the module @kernels, PTX for NVIDIA's chips, and with
/// it what `kernels` names of the bitcode `library`. Fails, with a diagnostic,
/// where a kernel calls what would have to be linked.
llvm::LogicalResult emitGPUAssembly(mlir::ModuleOp module, const GPUChip &chip,
                                    llvm::raw_pwrite_stream &out,
                                    llvm::ArrayRef<GPUKernel> kernels = {},
                                    llvm::StringRef library = "");

} // namespace poplar

#endif // POPLAR_TARGET_GPU_H

//===- Passes.td - Kernels on blocks of a GPU --------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_GPU_PASSES_TD
#define POPLAR_CONVERSION_GPU_PASSES_TD

include "mlir/Pass/PassBase.td"

def MapKernelsToGPU : Pass<"map-kernels-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Map outlined kernels to the blocks and threads of a GPU";
  let description = [{
    Adds the module @kernels with a `gpu.func` for every kernel: its pointers
    and the batch. A row is a block, or a subgroup where it is short; threads
    access 16 bytes at a time where the width allows it; sums have a fixed order.
    `exec.gpu_kernel` says how it is launched.
  }];
  let options = [Option<"subgroupSize", "subgroup-size", "int64_t", "32",
                        "Threads of a subgroup: 32 of NVIDIA's, 64 of AMD's">];
  let dependentDialects = ["::poplar::exec::ExecDialect",
    "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect"];
}

def ExpandGPUOps : Pass<"expand-gpu-ops", "::mlir::ModuleOp"> {
  let summary = "Expand ops for which GPUs have no instruction";
  let description = [{
    Sums over a block or a subgroup become exchanges of registers, in a fixed
    order; operations of `math` become intrinsics, where the conversions of the
    gpu dialect would call a vendor's library.
  }];
  let options = [Option<"subgroupSize", "subgroup-size", "int64_t", "32",
                        "Threads of a subgroup: 32 of NVIDIA's, 64 of AMD's">];
  let dependentDialects = ["::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect"];
}

#endif // POPLAR_CONVERSION_GPU_PASSES_TD

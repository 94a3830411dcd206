//===- Passes.td - Assembly of kernels ---------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PASSES_TD
#define POPLAR_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def EmitGPUAssembly : Pass<"emit-gpu-assembly", "::mlir::ModuleOp"> {
  let summary = "Write the assembly of @kernels: PTX for NVIDIA's chips";
  let description = [{
    After --poplar-lower-gpu for the same chip. The module stays as it is.
  }];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_80\"", "sm_70, gfx90a, ...">,
    Option<"output", "output", "std::string", "\"-\"",
           "File to write to; - for stdout">
  ];
}

#endif // POPLAR_TARGET_PASSES_TD

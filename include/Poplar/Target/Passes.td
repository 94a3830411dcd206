//===- Passes.td - Tables and assembly ---------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_PASSES_TD
#define POPLAR_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def DescribeProgram : Pass<"describe-program", "::mlir::ModuleOp"> {
  let summary = "State what the runtime has to know of the program";
  let description = [{
    After --plan-memory. Makes the `exec.program` of the module: its model, ranks,
    buckets, parameters and functions, and where they lie in memory. The tables of
    the executable are made from it alone.
  }];
  let options = [
    Option<"precision", "precision", "::poplar::NumberFormat",
           "::poplar::NumberFormat::F32",
           "f32, bf16 or f16: what activations are kept in">,
    Option<"cpu", "cpu", "std::string", "\"native\"",
           "LLVM's name of the CPU that code is generated for">,
    Option<"isa", "isa", "std::string", "\"\"",
           "What oneDNN may use of the CPU; empty for all">,
    Option<"chip", "chip", "std::string", "\"\"",
           "The GPU that kernels are compiled for; empty for a host">
  ];
}

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

//===- Passes.td - From memory to llvm ---------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_PASSES_TD
#define POPLAR_CONVERSION_PROGRAM_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerKernels : Pass<"lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Lower outlined kernels to loops over a part of their extent";
  let description = [{
    For a host. Every `exec.kernel` @k gets a function @k.body of pointers to its
    buffers, the batch, and the range [begin, end) of rows to compute; its ops
    become loops over the columns of a row. What a kernel computes does not depend
    on how the rows are divided among threads. The `exec.kernel` stays until
    --lower-program has replaced its dispatches.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect"];
}

def LowerProgram : Pass<"lower-program", "::mlir::ModuleOp"> {
  let summary = "Lower units and steps to calls of kernels and the runtime";
  let description = [{
    Every `exec.function` becomes an LLVM function of the context, the batch and its
    buffers; a buffer becomes an address in the arena. Products, kernels and
    collectives become calls of the runtime (`poplar_rt_...`) with constant
    descriptors. Where --map-kernels-to-gpu has run, kernels are launched by number.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"capability", "capability", "int", /*default=*/"0",
           "Of the GPU that kernels are mapped to: 80 for sm_80">,
    Option<"trapDeadRanges", "trap-dead-ranges", "bool", "false",
           "Let the program fill buffers with NaN when they die">
  ];
}

def ExpandMath : Pass<"expand-math", "::mlir::ModuleOp"> {
  let summary = "Approximate transcendental functions by polynomials";
  let description = [{
    exp, tanh, erf and log become basic operations. LLVM can vectorise these with
    the loop around them, but not calls of libm. A GPU has an instruction for 2 to
    the power of an f32, which replaces 23 of the polynomial.
  }];
  let options = [
    Option<"hasExp2", "has-exp2", "bool", "false",
           "Compute exp of f32 by the processor's exp2">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::math::MathDialect",
    "::mlir::vector::VectorDialect"];
}

#endif // POPLAR_CONVERSION_PROGRAM_PASSES_TD

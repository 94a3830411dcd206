//===- Passes.td - From row-wise ops to kernels ------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_KERNELS_PASSES_TD
#define POPLAR_CONVERSION_KERNELS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FuseGemmEpilogues : Pass<"fuse-gemm-epilogues", "::mlir::ModuleOp"> {
  let summary = "Fuse GELU and gradients of biases into products";
  let description = [{
    For GPUs, after differentiation: cuBLASLt applies GELU by tanh, or its
    gradient, before it stores a product, and so saves reading the product
    again. GELU by erf is another function and stays as it is. The gradient of a
    weight and that of a bias sum over the same gradient, which the product
    reads anyway.

    ```mlir
    %h = nn.linear %x, %w bias %b
    %y = nn.gelu %h form tanh       // -> %y, %h = nn.linear_gelu %x, %w bias %b
    %d = nn.linear %dy, %w
    %g = nn.gelu_grad %d, %h form tanh  // -> %g = nn.linear_gelu_grad %dy, %w pre %h
    %dw = nn.linear_grad_weight %dy, %x into %aw
    %db = nn.sum_rows %dy into %ab
    // -> %dw, %db = nn.linear_grad_weight_bias %dy, %x into %aw bias %ab
    ```
  }];
  let options = [
    Option<"biasGradients", "bias-gradients", "bool", "true",
           "Fuse the gradients of biases: for chips before sm_90, as the library "
           "has no kernels of later chips that add them">
  ];
}

def PadLogits : Pass<"pad-logits", "::mlir::ModuleOp"> {
  let summary = "Align the rows of logits of an odd vocabulary";
  let description = [{
    For GPUs, after differentiation: cuBLASLt has no fast kernel for rows that
    begin at odd places, such as those of 50257 elements of 16 bits. Rows of
    products that only losses and other products read, and rows of their
    gradient, are put at multiples of a cache line in memory. Shapes remain: no
    padding is ever computed or read, and parameters, their shards and
    checkpoints stay as they are. Logits that a step returns, as to sample from
    them, stay dense.

    ```mlir
    %y = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<257x8xbf16>)
        -> tensor<?x4x257xbf16>  // -> tensor<?x4x257xbf16, #exec.row<320>>
    ```
  }];
  let dependentDialects = ["::poplar::exec::ExecDialect"];
}

def ConvertNNToLinalg : Pass<"convert-nn-to-linalg", "::mlir::ModuleOp"> {
  let summary = "Lower row-wise nn ops to linalg on tensors";
  let description = [{
    Lowers all ops that implement `LinalgLoweringOpInterface`: of nn, all except
    GEMMs, attention, embedding gradients and parameters.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def MergeUnitResults : Pass<"merge-unit-results", "::mlir::ModuleOp"> {
  let summary = "Units return each value once";
  let description = [{
    Once ops are loops, some of what a unit returns may turn out to be equal: the
    statistics of two norms of the same rows (GPT-NeoX), which both norms keep
    for the backward pass. Results are written where the caller says, so that
    each needs a place of its own. What reads a repeated result reads the first.
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def SplitHeadSums : Pass<"split-head-sums", "::mlir::ModuleOp"> {
  let summary = "Add up heads in two stages";
  let description = [{
    For GPUs: the gradient of the weight of a norm of heads, as in Qwen3, is a
    sum over all tokens and heads with few columns, those of one head, which are
    few blocks of threads. It becomes two sums, the first of which is over the
    tokens of a sample and has the columns of all heads. Both add in a fixed
    order.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect"];
}

def FormKernels : Pass<"form-kernels", "::mlir::ModuleOp"> {
  let summary = "Outline groups of linalg ops that share their rows";
  let description = [{
    Groups of ops with the same rows become one `exec.kernel` each, and a
    `exec.dispatch` takes their place. Values that only the ops of a group read stay
    inside the kernel. A group also contains what initialises its outputs. `reuse`
    says which results may take the buffer of which argument.
  }];
  let dependentDialects = ["::poplar::exec::ExecDialect",
    "::poplar::nn::NNDialect", "::mlir::func::FuncDialect",
    "::mlir::tensor::TensorDialect"];
}

#endif // POPLAR_CONVERSION_KERNELS_PASSES_TD

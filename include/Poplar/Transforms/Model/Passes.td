//===- Passes.td - From the model level to train -----------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_PASSES_TD
#define POPLAR_TRANSFORMS_MODEL_PASSES_TD

include "mlir/Pass/PassBase.td"

def NNVerifyConfig : Pass<"nn-verify-config", "::mlir::ModuleOp"> {
  let summary = "Compare a module with the configuration that its checkpoints get";
  let description = [{
    Imports the `config` of `nn.model` again, with the options that `nn.model` has
    (length of samples, dropout, noise, packing, adapters, what is frozen and in which format).
    The module must have the parameters and functions of this import, and no
    others; functions the same ops in the same order, with the same attributes,
    types and operands; and `nn.model` the same facts. A module without `config`
    is as its author wrote it.

    Every command that reads a model or a plan runs this pass. It is of use at the
    model level only: later passes change what it compares.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect",
                           "::mlir::func::FuncDialect"];
}

def AnnotateCost : Pass<"annotate-cost", "::mlir::ModuleOp"> {
  let summary = "Record the FLOPs of a training sample (nn.training_cost)";
  let description = [{
    Counts three times the forward pass, the usual convention for forward and
    backward, over all units that @model calls. Recomputation is not counted.
  }];
  let options = [
    Option<"report", "report", "bool", "false",
           "Also remark on every op what it costs">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNAddAdapters : Pass<"nn-add-adapters", "::mlir::ModuleOp"> {
  let summary = "Train low-rank adapters (LoRA) beside frozen parameters";
  let description = [{
    Linear layers that `targets` name compute W x + (alpha / rank) B A x, with
    dropout in front of A (Hu et al., LoRA, 2021). A is initialised as PEFT does
    it, B with zeros. Modules are named as in PEFT's `target_modules`: by their
    last names, or by more of the name; `all-linear` are all but the one that
    makes the logits. Modules that `saved` names are trained as a whole, as
    PEFT's `modules_to_save`. All other parameters become `frozen`.
  }];
  let options = [
    Option<"rank", "rank", "int64_t", "8", "Rows of A and columns of B">,
    Option<"alpha", "alpha", "double", "16", "The update is scaled by alpha / rank">,
    Option<"dropout", "dropout", "double", "0", "Probability, in front of A">,
    ListOption<"targets", "targets", "std::string",
               "Modules to adapt, or all-linear">,
    ListOption<"saved", "saved", "std::string",
               "Modules to train as a whole">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNFreezeParameters : Pass<"nn-freeze-parameters", "::mlir::ModuleOp"> {
  let summary = "Train some parameters, and freeze the others";
  let description = [{
    Parameters that `trained` does not name become `frozen`. Layers that share a
    unit, and of which other parameters are frozen, get a copy of the unit each.
  }];
  let options = [
    ListOption<"trained", "trained", "std::string", "Parameters to train">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNQuantizeFrozen : Pass<"nn-quantize-frozen", "::mlir::ModuleOp"> {
  let summary = "Hold frozen weights in few bits (QLoRA)";
  let description = [{
    Frozen parameters that are the weight of linear layers, and nothing else,
    become matrices of `!nn.quantized` elements (Dettmers et al., QLoRA, 2023).
    Embeddings, norms, biases and the layer that makes the logits stay as they
    are. With `experts`, matrices of nn.expert_linear are quantised, too.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"nf4\"",
           "nf4, nf4_double or int8, see !nn.quantized">,
    Option<"experts", "experts", "bool", "false",
           "Quantise the weights of experts, too">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNRoundProducts : Pass<"nn-round-products", "::mlir::ModuleOp"> {
  let summary = "Multiply operands in 8 bits (fp8)";
  let description = [{
    Linear layers round the operands of their product, and of the gradient of
    their input, to e4m3 with a scale for each row (`fp8` of nn.linear).
    Gradients of weights, the layer that makes the logits, routers, experts and
    adapters are left as they are, and so are layers whose inputs or outputs are
    no multiple of 16.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNConvertPrecision : Pass<"nn-convert-precision", "::mlir::ModuleOp"> {
  let summary = "Compute in bf16 or f16, with f32 master parameters";
  let description = [{
    Activations and the parameters' working copies become `type`; parameters,
    gradients, statistics and losses stay f32.
  }];
  let options = [
    Option<"type", "type", "::poplar::NumberFormat",
           "::poplar::NumberFormat::BF16", "bf16, f16 or f32">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNStoreActivations : Pass<"nn-store-activations", "::mlir::ModuleOp"> {
  let summary = "Keep activations between units in a narrow format";
  let description = [{
    Arguments and results of units have the format `type`; units compute in f32,
    on f32 parameters. Gradients of activations have the format `type`, too, and
    need a loss scale in f16.
  }];
  let options = [
    Option<"type", "type", "::poplar::NumberFormat",
           "::poplar::NumberFormat::F16", "bf16, f16 or f32">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::poplar::zero::ZeroDialect"];
}

def NNDifferentiate : Pass<"nn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Build forward, backward and the training step";
  let description = [{
    For every unit @f makes @f.forward, which also returns the residuals, and
    @f.backward, which takes them; from @model makes @train, @evaluate and
    @infer. `recompute` chooses the residuals. With `recompute-unit:8`, the first
    8 layers (Layers.h) have that policy, and the parts of their unit are called
    @f.recompute.forward and @f.recompute.backward; all else keeps everything.

    Logits of more than `chunk-bytes` a sample are kept under no policy. They
    and the loss are computed in one unit, which has the attribute
    `nn.chunk_bytes`: `--plan-memory` has it make the logits in chunks of tokens.
    The attribute on the unit of the loss takes the place of the option.
  }];
  let options = [
    Option<"recompute", "recompute", "::poplar::Recomputation",
           "::poplar::Recomputation()",
           "keep, recompute-attention or recompute-unit; the latter two with :N "
           "for the first N layers alone">,
    Option<"chunkBytes", "chunk-bytes", "int64_t", "int64_t(2) << 30",
           "Bytes of the logits of a sample that may be whole in memory">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"];
}

def NNAddDecoding : Pass<"nn-add-decoding", "::mlir::ModuleOp"> {
  let summary = "Build functions for sampling that keep keys and values in caches";
  let description = [{
    From @infer makes @decode, which takes one new token of each sample with its
    position, and @prefill, which takes `chunk` of them. Both add the keys and
    values of the tokens to the caches (`nn.cache`) and attend over what these
    hold. A model with an op that needs whole sequences, such as attention that
    is not causal, gets neither, and a remark.
  }];
  let options = [
    Option<"chunk", "chunk", "int64_t", "64",
           "Tokens of a prompt that @prefill takes at a time, at most">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::mlir::func::FuncDialect"];
}

def AddOptimizer : Pass<"add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Add the optimizer's step as functions of flat arrays";
  let description = [{
    Adds @adamw, and @convert_working if parameters are read in a format lower
    than f32. The runtime calls them once per parameter or shard, with its
    element count as the batch. `exec.optimizer` names them.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::poplar::exec::ExecDialect", "::mlir::func::FuncDialect"];
}

#endif // POPLAR_TRANSFORMS_MODEL_PASSES_TD

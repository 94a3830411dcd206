//===- NNInterfaces.td - What passes ask of an op ---------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNINTERFACES_TD
#define POPLAR_DIALECT_NN_NNINTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let description = [{
    An op that can build its own vector-Jacobian product. The values of the
    forward pass it refers to in doing so (operands or results) are its
    residuals; the differentiation pass decides which of them are kept and
    which are recomputed, so an implementation just uses what it needs.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<[{
      Adds, through `grads`, the cotangent of every differentiable operand.
      `grads.cotangent(result)` is the cotangent of a result, null where the
      result influences nothing. Called with the builder after every use.
      Fails, with a diagnostic at the op, where no derivative exists.
    }], "::llvm::LogicalResult", "buildVJP",
      (ins "::mlir::OpBuilder &":$builder,
           "::poplar::nn::Gradients &":$grads)>,
    InterfaceMethod<[{
      Whether the reverse of the op reads this operand. A parameter that no
      reverse reads is not gathered again for the backward pass.
    }], "bool", "isReadInReverse", (ins "::mlir::OpOperand &":$operand),
      /*methodBody=*/"", /*defaultImplementation=*/"return true;">,
    InterfaceMethod<[{
      Whether the policy `recompute-attention` computes the results again in the
      backward pass instead of keeping them.
    }], "bool", "isRecomputedWithAttention", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let description = [{
    What an op costs per sample (one row of the dynamic batch dimension), for
    the memory plan, the profile and the planner's roofline.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<"Cost of this op for one sample.",
      "::poplar::nn::OpCost", "getCost", (ins)>
  ];
}

def LinalgLoweringOpInterface : OpInterface<"LinalgLoweringOpInterface"> {
  let description = [{
    An op that `--convert-nn-to-linalg` replaces by loops. What has no such
    lowering has to run as calls (RuntimeCallOpInterface of the exec dialect).
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<[{
      Builds `linalg.generic` ops in the forms of Conversion/LinalgBuilder.h;
      returns what replaces the results.
    }], "::llvm::SmallVector<::mlir::Value>", "lowerToLinalg",
      (ins "::poplar::LinalgBuilder &":$builder)>
  ];
}

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let description = [{
    An op whose result has its own rule for the number format. Without this
    interface, result 0 of a differentiable op takes the format of the op's
    first floating-point operand, and all other results stay f32.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<[{
      Sets the types of the results. The operands have theirs; `format` is that
      of the parameters and the activations of the model.
    }], "void", "convertPrecision", (ins "::mlir::FloatType":$format)>
  ];
}

def RandomOpInterface : OpInterface<"RandomOpInterface"> {
  let description = [{
    An op that draws random numbers in training and must not in evaluation.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<"Whether this op draws any.", "bool", "isRandom", (ins)>,
    InterfaceMethod<[{
      Makes the op what it is in evaluation. May replace and erase it.
    }], "void", "removeRandomness", (ins)>
  ];
}

def ModelFactsOpInterface : OpInterface<"ModelFactsOpInterface"> {
  let description = [{
    An op that tells something of the model as a whole, with which the
    dictionary `nn.model` must agree. The methods are called before the op is
    verified: its operands may be missing, and of any type.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<"What the op tells.",
      "::llvm::SmallVector<::poplar::nn::ModelFact>", "getModelFacts", (ins)>,
    InterfaceMethod<"Whether every layer of a model has one such op.",
      "bool", "isOncePerLayer", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return false;">,
    InterfaceMethod<[{
      Parts that tensor parallelism cannot divide further, as heads of
      attention: its degrees are divisors. 0 if the op sets no limit.
    }], "int64_t", "getTensorParts", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return 0;">
  ];
}

def DecodableOpInterface : OpInterface<"DecodableOpInterface"> {
  let description = [{
    An op that can be computed for a few new tokens of a text at a time, from
    what caches hold of the tokens before them. Unless an op says otherwise, it
    computes every token by itself and needs no cache.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<"Whether it can.", "bool", "isDecodable", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return true;">,
    InterfaceMethod<[{
      Builds the op for the new tokens, and maps its results.
    }], "void", "buildDecoding", (ins "::poplar::nn::Decoding &":$decoding),
      /*methodBody=*/"", /*defaultImplementation=*/"decoding.clone($_op);">
  ];
}

def TensorParallelOpInterface : OpInterface<"TensorParallelOpInterface"> {
  let description = [{
    An op that several devices can share (Megatron-LM: Shoeybi et al. 2019, with
    sequence parallelism: Korthikanti et al. 2022). NNTensorParallel.h says how
    values are divided.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<[{
      How the columns of this operand may be divided.
    }], "::poplar::nn::OperandSplit", "splitOperand",
      (ins "::mlir::OpOperand &":$operand,
           "const ::poplar::nn::TensorGroup &":$group),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
      Builds the part of the op that a device computes. Fails with a diagnostic
      at the op where it cannot be divided.
    }], "::llvm::LogicalResult", "shard",
      (ins "::poplar::nn::UnitSharding &":$sharding)>
  ];
}

#endif // POPLAR_DIALECT_NN_NNINTERFACES_TD

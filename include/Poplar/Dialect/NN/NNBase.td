//===- NNBase.td - Classes, types and attributes of nn -----*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by NNOps.td: what the definitions of ops use.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNBASE_TD
#define POPLAR_DIALECT_NN_NNBASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "Poplar/Dialect/NN/NNInterfaces.td"

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

def NNDialect : Dialect {
  let name = "nn";
  let cppNamespace = "::poplar::nn";
  let summary = "Transformer models, their gradients and their optimizer";
  let description = [{
    The level at which models are imported and differentiated. Activations are
    `tensor<?xTxD>`: the batch is dynamic, everything else static. Heavy ops
    (linear, attention, norms, loss) are named; anything else may be plain
    `linalg` on tensors. See docs/Rationale.md.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasConstantMaterializer = 0;
  /// See NN.h.
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
}

class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NNDialect, mnemonic, traits>;

/// An op of the forward pass: pure, differentiable, costed. `overrides` are
/// methods of DifferentiableOpInterface for which the default does not hold.
/// `decoding` are those of DecodableOpInterface.
class NN_ForwardOp<string mnemonic, list<Trait> traits = [],
                   list<string> overrides = [], bit hasSplit = 0,
                   list<string> decoding = []>
    : NN_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<DifferentiableOpInterface, overrides>,
        DeclareOpInterfaceMethods<CostOpInterface>,
        DeclareOpInterfaceMethods<DecodableOpInterface, decoding>,
        DeclareOpInterfaceMethods<TensorParallelOpInterface,
          !if(hasSplit, ["splitOperand"], []<string>)>], traits)> {
  let hasVerifier = 1;
}

/// An op that only the differentiation pass makes.
class NN_GradientOp<string mnemonic, list<Trait> traits = []>
    : NN_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<CostOpInterface>], traits)> {
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Types and attributes
//===----------------------------------------------------------------------===//

def NN_Float : AnyTypeOf<[F32, BF16, F16]>;
/// Activations [B, T, D], B dynamic.
def NN_Activation : 3DTensorOf<[NN_Float]>;
/// Token ids or targets [B, T].
def NN_Ids : 2DTensorOf<[I32]>;
/// One f32 per token [B, T].
def NN_PerToken : 2DTensorOf<[F32]>;
def NN_Matrix : 2DTensorOf<[NN_Float]>;
def NN_Vector : 1DTensorOf<[NN_Float]>;
/// Per-sample random keys [B, 2], see nn.dropout.
def NN_Keys : 2DTensorOf<[I32]>;
/// Gradients are accumulated in f32 whatever the activations' type.
def NN_F32Matrix : 2DTensorOf<[F32]>;
def NN_F32Vector : 1DTensorOf<[F32]>;

def NN_QuantizedFormat : I32EnumAttr<"QuantizedFormat",
    "how a frozen weight is quantised", [
      I32EnumAttrCase<"NF4", 0, "nf4">,
      I32EnumAttrCase<"NF4Double", 1, "nf4_double">,
      I32EnumAttrCase<"Int8", 2, "int8">]> {
  let cppNamespace = "::poplar::nn";
  let genSpecializedAttr = 0;
}

def NN_Quantized : TypeDef<NNDialect, "Quantized", [MemRefElementTypeInterface]> {
  let mnemonic = "quantized";
  let summary = "An element of a quantised matrix";
  let description = [{
    ```mlir
    tensor<64x64x!nn.quantized<nf4>>
    ```
    In the formats of bitsandbytes: `nf4` (4 bits a value, an f32 scale for 64
    values), `nf4_double` (the same with quantised scales) and `int8` (8 bits a
    value, an f32 scale for each row). Values and scales of a tensor lie as
    Runtime/Quantized.h says: one element has no size of its own. nn.linear
    multiplies by such a matrix, in the format of its other operands.
  }];
  let parameters = (ins EnumParameter<NN_QuantizedFormat>:$format);
  let assemblyFormat = "`<` $format `>`";
}
/// A weight of a linear op, which may be quantised if it is frozen.
def NN_Weight : 2DTensorOf<[NN_Float, NN_Quantized]>;

def NN_WeightLayout : I32EnumAttr<"WeightLayout",
    "how the weight of a linear op is stored", [
      I32EnumAttrCase<"OutIn", 0, "out_in">,
      I32EnumAttrCase<"InOut", 1, "in_out">]> {
  let cppNamespace = "::poplar::nn";
  let genSpecializedAttr = 0;
}
def NN_WeightLayoutAttr : EnumAttr<NNDialect, NN_WeightLayout, "layout">;

def NN_InitKind : I32EnumAttr<"InitKind", "initial distribution", [
      I32EnumAttrCase<"Normal", 0, "normal">,
      I32EnumAttrCase<"Zeros", 1, "zeros">,
      I32EnumAttrCase<"Ones", 2, "ones">,
      I32EnumAttrCase<"Uniform", 3, "uniform">,
      I32EnumAttrCase<"LogUniform", 4, "log_uniform">]> {
  let cppNamespace = "::poplar::nn";
  let genSpecializedAttr = 0;
}
def NN_InitKindAttr : EnumAttr<NNDialect, NN_InitKind, "init">;

def NN_GeluKind : I32EnumAttr<"GeluKind", "form of GELU", [
      I32EnumAttrCase<"Erf", 0, "erf">,
      I32EnumAttrCase<"Tanh", 1, "tanh">]> {
  let cppNamespace = "::poplar::nn";
  let genSpecializedAttr = 0;
}
def NN_GeluKindAttr : EnumAttr<NNDialect, NN_GeluKind, "gelu_form">;

def NN_SliceAttr : AttrDef<NNDialect, "Slice"> {
  let mnemonic = "slice";
  let summary = "Which part of a tensor of the checkpoint a parameter is";
  let description = [{
    ```mlir
    #nn.slice<of "h.0.mlp.fc.weight" shape [64, 256] dim 1 ranges [0, 128]>
    ```
    The columns (`dim` 1) or rows [0, 128) of it; several ranges, [begin, end)
    one after the other and ascending, lie next to each other in the parameter.
  }];
  let parameters = (ins StringRefParameter<>:$tensor,
                        ArrayRefParameter<"int64_t">:$shape, "int64_t":$dim,
                        ArrayRefParameter<"int64_t">:$ranges);
  let assemblyFormat = [{
    `<` `of` $tensor `shape` ` ` `[` $shape `]` `dim` $dim `ranges` ` ` `[` $ranges
    `]` `>`
  }];
  let genVerifyDecl = 1;
}

#endif // POPLAR_DIALECT_NN_NNBASE_TD

//===- ZeroEnums.td - Kinds of collectives and messages ---*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZEROENUMS_TD
#define POPLAR_DIALECT_ZERO_ZEROENUMS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"

def Zero_CollectiveKind : I32EnumAttr<"CollectiveKind",
    "what a collective does with a bucket", [
      I32EnumAttrCase<"AllGather", 0, "all_gather">,
      I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
      I32EnumAttrCase<"AllReduce", 2, "all_reduce">,
      I32EnumAttrCase<"Norm", 3, "norm">]> {
  let cppNamespace = "::poplar::zero";
}

def Zero_MessageKind : I32EnumAttr<"MessageKind",
    "what a message between two groups holds", [
      I32EnumAttrCase<"Activation", 0, "activation">,
      I32EnumAttrCase<"Gradient", 1, "gradient">]> {
  let cppNamespace = "::poplar::zero";
}

def Zero_ExchangeKind : I32EnumAttr<"ExchangeKind",
    "what ranks that share units exchange", [
      I32EnumAttrCase<"GatherTokens", 0, "gather_tokens">,
      I32EnumAttrCase<"ScatterTokens", 1, "scatter_tokens">,
      I32EnumAttrCase<"Collect", 2, "collect">]> {
  let cppNamespace = "::poplar::zero";
}

/// ui8 is that of buckets of quantised parameters.
def Zero_WireType : TypeAttrBase<"::mlir::Type", "f32, bf16, f16 or ui8",
    CPred<"::llvm::isa<::mlir::Float32Type, ::mlir::BFloat16Type, "
          "::mlir::Float16Type>($_self) || $_self.isUnsignedInteger(8)">>;

/// What collectives carry; i8 stands for blocks of int8 (docs/lossy-wires.md).
def Zero_CollectiveWire
    : TypeAttrBase<"::mlir::Type", "f32, bf16, f16, i8 or ui8",
    CPred<"::llvm::isa<::mlir::Float32Type, ::mlir::BFloat16Type, "
          "::mlir::Float16Type>($_self) || $_self.isSignlessInteger(8) || "
          "$_self.isUnsignedInteger(8)">>;

#endif // POPLAR_DIALECT_ZERO_ZEROENUMS_TD

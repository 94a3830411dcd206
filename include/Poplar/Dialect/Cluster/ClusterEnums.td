//===- ClusterEnums.td - Formats, policies, kinds of links -*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_TD
#define POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

/// The keyword of a NumberFormat of Support/Words.h, which ops take and give;
/// ClusterEnums.h holds the two to each other.
def Cluster_NumberFormat : I32EnumAttr<"FormatKeyword",
    "what activations and working copies of parameters are kept in", [
      I32EnumAttrCase<"F32", 0, "f32">,
      I32EnumAttrCase<"BF16", 1, "bf16">,
      I32EnumAttrCase<"F16", 2, "f16">,
      I32EnumAttrCase<"TF32", 3, "tf32">]> {
  let cppNamespace = "::poplar::cluster";
  let returnType = "::poplar::NumberFormat";
  let convertFromStorage =
      "static_cast<::poplar::NumberFormat>($_self.getValue())";
  let constBuilderCall = "::poplar::cluster::FormatKeywordAttr::get("
      "$_builder.getContext(), "
      "static_cast<::poplar::cluster::FormatKeyword>($0))";
}

/// A word of Support/Words.h, written as a string; verifiers refuse others, with
/// the words that there are.
class Cluster_WordAttr<string cppType, string summary>
    : StringBasedAttr<CPred<"::llvm::isa<::mlir::StringAttr>($_self)">,
                      summary> {
  let returnType = cppType;
  let convertFromStorage =
      "*::poplar::parseWord<" # cppType # ">($_self.getValue())";
  let constBuilderCall = "$_builder.getStringAttr(::poplar::toString($0))";
}

/// A value of Support/Recomputation.h, written as a string; verifiers refuse
/// other texts, with those that there are.
def Cluster_RecomputeAttr
    : StringBasedAttr<CPred<"::llvm::isa<::mlir::StringAttr>($_self)">,
                      "what a backward pass computes again"> {
  let returnType = "::poplar::Recomputation";
  let convertFromStorage = "*::poplar::parseRecomputation($_self.getValue())";
  let constBuilderCall = "$_builder.getStringAttr(::poplar::toString($0))";
}

def Cluster_LinkKind : I32EnumAttr<"LinkKind", "which devices a link joins", [
      I32EnumAttrCase<"Between", 0, "between">,
      I32EnumAttrCase<"FromTo", 1, "from">,
      I32EnumAttrCase<"Inside", 2, "inside">]> {
  let cppNamespace = "::poplar::cluster";
}

#endif // POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_TD

//===- ExecExpertOps.td - Mixtures of experts --------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dialect/NN/NNGroupOps.td says what they compute. They have a header of their own,
// ExecExperts.h, which those include who name them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECEXPERTOPS_TD
#define POPLAR_DIALECT_EXEC_EXECEXPERTOPS_TD

include "Poplar/Dialect/Exec/ExecBase.td"

def Exec_RouteOp : Exec_Op<"route"> {
  let summary = "nn.route on buffers";
  let arguments = (ins Exec_Buffer:$logits, Exec_Buffer:$scores,
    Exec_Buffer:$experts, Optional<Exec_Buffer>:$bias, I64Attr:$top_k,
    I64Attr:$groups, I64Attr:$top_groups, UnitAttr:$sigmoid,
    UnitAttr:$normalized);
  let assemblyFormat = [{
    $logits `into` $scores `,` $experts (`bias` $bias^)? `top_k` $top_k
    `of` $top_groups `groups` `among` $groups (`sigmoid` $sigmoid^)?
    (`normalized` $normalized^)? attr-dict `:` `(` type(operands) `)`
  }];
}

def Exec_RouteGradOp : Exec_Op<"route_grad"> {
  let summary = "nn.route_grad on buffers";
  let arguments = (ins Exec_Buffer:$dscores, Exec_Buffer:$scores,
    Exec_Buffer:$experts, Exec_Buffer:$logits, Exec_Buffer:$dlogits,
    I64Attr:$top_k, UnitAttr:$sigmoid, UnitAttr:$normalized);
  let assemblyFormat = [{
    $dscores `,` $scores `,` $experts `,` $logits `into` $dlogits
    `top_k` $top_k (`sigmoid` $sigmoid^)? (`normalized` $normalized^)? attr-dict
    `:` `(` type(operands) `)`
  }];
}

def Exec_ExpertProductOp : Exec_Op<"expert_product"> {
  let summary = "nn.expert_linear on buffers";
  let arguments = (ins Exec_Buffer:$x, Exec_Buffer:$experts,
    Variadic<Exec_Buffer>:$weights, Exec_Buffer:$result, UnitAttr:$trans_b);
  let assemblyFormat = [{
    $x `,` $experts `,` $weights `into` $result (`trans_b` $trans_b^)? attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarExperts getDescriptor();";
}

def Exec_ExpertWeightGradOp : Exec_Op<"expert_weight_grad"> {
  let summary = "nn.expert_linear_grad_weight on buffers";
  let arguments = (ins Exec_Buffer:$dy, Exec_Buffer:$x, Exec_Buffer:$experts,
    Variadic<Exec_Buffer>:$weights);
  let assemblyFormat = [{
    $dy `,` $x `,` $experts `into` $weights attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarExperts getDescriptor();";
}

#endif // POPLAR_DIALECT_EXEC_EXECEXPERTOPS_TD

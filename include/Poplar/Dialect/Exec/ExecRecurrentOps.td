//===- ExecRecurrentOps.td - Linear attention --------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Dialect/NN/NNRecurrentOps.td says what they compute. They have a header of their
// own, ExecRecurrent.h, which those include who name them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECRECURRENTOPS_TD
#define POPLAR_DIALECT_EXEC_EXECRECURRENTOPS_TD

include "Poplar/Dialect/Exec/ExecBase.td"

def Exec_CausalConvOp : Exec_Op<"causal_conv", [AttrSizedOperandSegments]> {
  let summary = "nn.causal_conv and nn.cached_causal_conv on buffers";
  let arguments = (ins Exec_Buffer:$x, Exec_Buffer:$weight,
    Optional<Exec_Buffer>:$positions, Optional<Exec_Buffer>:$cache,
    Exec_Buffer:$result);
  let assemblyFormat = [{
    $x `,` $weight (`at` $positions^)? (`cache` $cache^)? `into` $result
    attr-dict `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarCausalConv getDescriptor();";
}

def Exec_CausalConvGradOp : Exec_Op<"causal_conv_grad"> {
  let summary = "nn.causal_conv_grad on buffers";
  let arguments = (ins Exec_Buffer:$dy, Exec_Buffer:$weight,
    Optional<Exec_Buffer>:$positions, Exec_Buffer:$result);
  let assemblyFormat = [{
    $dy `,` $weight (`at` $positions^)? `into` $result attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarCausalConv getDescriptor();";
}

def Exec_CausalConvGradWeightOp : Exec_Op<"causal_conv_grad_weight"> {
  let summary = "nn.causal_conv_grad_weight on buffers";
  let arguments = (ins Exec_Buffer:$dy, Exec_Buffer:$x,
    Optional<Exec_Buffer>:$positions, Exec_Buffer:$acc);
  let assemblyFormat = [{
    $dy `,` $x (`at` $positions^)? `into` $acc attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarCausalConv getDescriptor();";
}

def Exec_GatedDeltaOp : Exec_Op<"gated_delta", [AttrSizedOperandSegments]> {
  let summary = "nn.gated_delta and nn.cached_gated_delta on buffers";
  let arguments = (ins Exec_Buffer:$x, Exec_Buffer:$a, Exec_Buffer:$b,
    Exec_Buffer:$a_log, Exec_Buffer:$dt_bias, Optional<Exec_Buffer>:$positions,
    Optional<Exec_Buffer>:$state, Exec_Buffer:$result, I64Attr:$key_heads,
    I64Attr:$value_heads);
  let assemblyFormat = [{
    $x `,` $a `,` $b `,` $a_log `,` $dt_bias (`at` $positions^)?
    (`state` $state^)? `into` $result `key_heads` $key_heads
    `value_heads` $value_heads attr-dict `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarGatedDelta getDescriptor();";
}

def Exec_GatedDeltaGradOp : Exec_Op<"gated_delta_grad"> {
  let summary = "nn.gated_delta_grad on buffers";
  let arguments = (ins Exec_Buffer:$dy, Exec_Buffer:$x, Exec_Buffer:$a,
    Exec_Buffer:$b, Exec_Buffer:$a_log, Exec_Buffer:$dt_bias,
    Optional<Exec_Buffer>:$positions, Exec_Buffer:$dx, Exec_Buffer:$da,
    Exec_Buffer:$db, Exec_Buffer:$dlog, Exec_Buffer:$scratch,
    I64Attr:$key_heads, I64Attr:$value_heads);
  let assemblyFormat = [{
    $dy `,` $x `,` $a `,` $b `,` $a_log `,` $dt_bias (`at` $positions^)?
    `into` $dx `,` $da `,` $db `,` $dlog `scratch` $scratch
    `key_heads` $key_heads `value_heads` $value_heads attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarGatedDelta getDescriptor();";
}

#endif // POPLAR_DIALECT_EXEC_EXECRECURRENTOPS_TD

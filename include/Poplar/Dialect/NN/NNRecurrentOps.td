//===- NNRecurrentOps.td - Linear attention ---------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops that carry a state from token to token. They have a header of their own,
// NNRecurrentOps.h, which those include who name them.
//
// `positions` [B,T] are as in nn.attention: several documents lie in a sample, one
// after the other, and position 0 begins one.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNRECURRENTOPS_TD
#define POPLAR_DIALECT_NN_NNRECURRENTOPS_TD

include "Poplar/Dialect/NN/NNBase.td"

/// Filters of a depthwise convolution [C,1,k].
def NN_Filters : 3DTensorOf<[NN_Float]>;
/// States [B,H,Dk,Dv], and what else a kernel writes for itself.
def NN_States : 4DTensorOf<[F32]>;
def NN_Scratch : 2DTensorOf<[F32]>;

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

def NN_CausalConvOp : NN_ForwardOp<"causal_conv", [], [], /*hasSplit=*/0,
    ["buildDecoding"]> {
  let summary = "Depthwise causal convolution over the tokens";
  let description = [{
    x [B,T,C], weight [C,1,k] -> [B,T,C]:
    `y[t,c] = sum_j weight[c,0,j] x[t - (k-1) + j, c]`, where tokens before the
    document count as 0 (torch.nn.Conv1d with groups = C, padding = k - 1 and no
    bias, of which the last k - 1 results are dropped). k is at most 16.
    ```mlir
    %y = nn.causal_conv %x, %w at %positions : (tensor<?x16x8xf32>,
        tensor<8x1x4xf32>, tensor<?x16xi32>) -> tensor<?x16x8xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, NN_Filters:$weight,
                       Optional<NN_Ids>:$positions);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight (`at` $positions^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CausalConvGradOp : NN_GradientOp<"causal_conv_grad"> {
  let summary = "Gradient of causal_conv with respect to x";
  let arguments = (ins NN_Activation:$dy, NN_Filters:$weight,
                       Optional<NN_Ids>:$positions);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dy `,` $weight (`at` $positions^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CausalConvGradWeightOp : NN_GradientOp<"causal_conv_grad_weight"> {
  let summary = "acc[c,0,j] += sum_{b,t} dy[t,c] x[t - (k-1) + j, c]";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x,
                       Optional<NN_Ids>:$positions, 3DTensorOf<[F32]>:$acc);
  let results = (outs 3DTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $dy `,` $x (`at` $positions^)? `into` $acc attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CachedCausalConvOp : NN_Op<"cached_causal_conv", [Pure]> {
  let summary = "nn.causal_conv of new tokens, after what a cache holds";
  let description = [{
    The cache [B,k-1,C] holds the last k - 1 rows of x, and is updated in place. A
    token at the position of the one before it is that token again, as at the end
    of a prompt. Made by `--nn-add-decoding`.
  }];
  let arguments = (ins NN_Activation:$x, NN_Filters:$weight, NN_Ids:$positions,
                       NN_Activation:$cache);
  let results = (outs NN_Activation:$result, NN_Activation:$new_cache);
  let assemblyFormat = [{
    $x `,` $weight `at` $positions `cache` $cache attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The gated delta rule
//===----------------------------------------------------------------------===//

def NN_GatedDeltaOp : NN_ForwardOp<"gated_delta",
    [DeclareOpInterfaceMethods<ModelFactsOpInterface, ["isOncePerLayer",
      "getTensorParts"]>],
    [], /*hasSplit=*/0, ["buildDecoding"]> {
  let summary = "Linear attention by the gated delta rule";
  let description = [{
    x is the packed [B,T,2*Hk*dk + Hv*dv]: queries of all key heads, keys, then
    values of the value heads; a and b are [B,T,Hv], a_log and dt_bias [Hv]; the
    result is [B,T,Hv*dv]. Value head h reads key head h / (Hv/Hk). Its state S
    [dk,dv] is 0 where a document begins. With q and k of length 1 (x rsqrt(sum
    x^2 + 1e-6)), q divided by sqrt(dk), alpha = exp(-exp(a_log) softplus(a +
    dt_bias)) and beta = sigmoid(b), for each token:

        S = alpha S;  S += k (beta (v - S^T k))^T;  out = S^T q

    in f32 whatever the format (Yang et al. 2024, Gated Delta Networks). Tokens
    follow each other: the kernel divides samples and heads among threads, and
    not the tokens. dk and dv are at most 128.
    ```mlir
    %y = nn.gated_delta %x, %a, %b, %a_log, %dt_bias key_heads 2 value_heads 4
        : (tensor<?x16x56xf32>, tensor<?x16x4xf32>, tensor<?x16x4xf32>,
           tensor<4xf32>, tensor<4xf32>) -> tensor<?x16x24xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, NN_Activation:$a, NN_Activation:$b,
                       NN_Vector:$a_log, NN_Vector:$dt_bias,
                       Optional<NN_Ids>:$positions, I64Attr:$key_heads,
                       I64Attr:$value_heads);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $a `,` $b `,` $a_log `,` $dt_bias (`at` $positions^)?
    `key_heads` $key_heads `value_heads` $value_heads attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_GatedDeltaGradOp : NN_GradientOp<"gated_delta_grad"> {
  let summary = "Gradient of gated_delta";
  let description = [{
    dx, da and db have the types of x, a and b. dlog [B,T,Hv], in f32, is the
    gradient of a_log, not yet summed over the tokens; that of dt_bias is the sum
    of da. The forward pass is computed again: `scratch` [B,n] holds the states at
    the beginnings of chunks and those of one chunk (Runtime/Recurrent.h says
    how), and nobody reads it afterwards.
  }];
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_Activation:$a,
                       NN_Activation:$b, NN_Vector:$a_log, NN_Vector:$dt_bias,
                       Optional<NN_Ids>:$positions, I64Attr:$key_heads,
                       I64Attr:$value_heads);
  let results = (outs NN_Activation:$dx, NN_Activation:$da, NN_Activation:$db,
                      3DTensorOf<[F32]>:$dlog, NN_Scratch:$scratch);
  let assemblyFormat = [{
    $dy `,` $x `,` $a `,` $b `,` $a_log `,` $dt_bias (`at` $positions^)?
    `key_heads` $key_heads `value_heads` $value_heads attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CachedGatedDeltaOp : NN_Op<"cached_gated_delta", [Pure]> {
  let summary = "nn.gated_delta of new tokens, from the state in a cache";
  let description = [{
    The state is [B,Hv,dk,dv], and updated in place. A token at the position of
    the one before it is that token again. Made by `--nn-add-decoding`.
  }];
  let arguments = (ins NN_Activation:$x, NN_Activation:$a, NN_Activation:$b,
                       NN_Vector:$a_log, NN_Vector:$dt_bias, NN_Ids:$positions,
                       NN_States:$state, I64Attr:$key_heads,
                       I64Attr:$value_heads);
  let results = (outs NN_Activation:$result, NN_States:$new_state);
  let assemblyFormat = [{
    $x `,` $a `,` $b `,` $a_log `,` $dt_bias `at` $positions `state` $state
    `key_heads` $key_heads `value_heads` $value_heads attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // POPLAR_DIALECT_NN_NNRECURRENTOPS_TD

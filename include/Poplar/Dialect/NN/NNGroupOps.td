//===- NNGroupOps.td - Groups of columns -------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ops on groups of columns, which are heads or the rows of a token's experts. They
// have a header of their own, NNGroupOps.h, which those include who name them.
//
// In a mixture of experts, each token goes to k of E. [B,T*k] is one element for each of the
// experts of each token, and of [B,T,k*D] the k rows of a token are its experts'.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNGROUPOPS_TD
#define POPLAR_DIALECT_NN_NNGROUPOPS_TD

include "Poplar/Dialect/NN/NNBase.td"

def NN_RegroupOp : NN_ForwardOp<"regroup",
    [AllTypesMatch<["x", "result"]>], [], /*hasSplit=*/1> {
  let summary = "Columns of `groups` groups of `parts` parts, by part";
  let description = [{
    Column (g * parts + p) * w + j becomes column (p * groups + g) * w + j. Where
    a checkpoint holds q, k and v of one head after those of another (GPT-NeoX),
    this gives q of all heads, then k, then v. The gradient is the same op with
    the numbers exchanged.
  }];
  let arguments = (ins NN_Activation:$x, I64Attr:$groups, I64Attr:$parts);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$x `groups` $groups `parts` $parts attr-dict `:` type($x)";
}

def NN_RegroupPartsOp : NN_ForwardOp<"regroup_parts",
    [AllTypesMatch<["x", "result"]>]> {
  let summary = "regroup with parts of unlike widths";
  let description = [{
    Each of `groups` groups has a part of each of `widths`: the result is the
    first parts of all groups, then the second ones, and so on (q, k, v and z of
    the heads of Qwen3-Next). `inverse` undoes that, and is the gradient.
    ```mlir
    %y = nn.regroup_parts %x groups 2 widths [4, 4, 8] : tensor<?x16x32xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, I64Attr:$groups,
                       DenseI64ArrayAttr:$widths, UnitAttr:$inverse);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `groups` $groups `widths` $widths (`inverse` $inverse^)? attr-dict
    `:` type($x)
  }];
}

def NN_RouteOp : NN_ForwardOp<"route",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "The experts that each token goes to, and their weights";
  let description = [{
    logits [B,T,E] -> scores [B,T*k] f32 and experts [B,T*k]: the k largest of
    softmax(logits), the largest first, of equal ones the first. `normalized`
    divides them by their sum. Which experts they are has no gradient.
    ```mlir
    %scores, %experts = nn.route %logits top_k 2 normalized
        : (tensor<?x16x8xf32>) -> (tensor<?x32xf32>, tensor<?x32xi32>)
    ```
    With `sigmoid`, scores are sigmoid(logits). A bias is added to what is
    compared and not to the scores; it has no gradient. It is [3,E], the sum of
    whose rows it is: rows of 16 bits hold a bias of f32. With `groups`, experts
    are chosen from the `top_groups` of them in which the two largest have the
    largest sums (DeepSeek-V3).
    ```mlir
    %scores, %experts = nn.route %logits bias %bias top_k 2 groups 4
        top_groups 2 sigmoid : (tensor<?x16x8xf32>, tensor<3x8xf32>)
        -> (tensor<?x32xf32>, tensor<?x32xi32>)
    ```
  }];
  let arguments = (ins NN_Activation:$logits, Optional<NN_Matrix>:$bias,
                       I64Attr:$top_k,
                       DefaultValuedAttr<I64Attr, "1">:$groups,
                       DefaultValuedAttr<I64Attr, "1">:$top_groups,
                       UnitAttr:$sigmoid, UnitAttr:$normalized);
  let results = (outs NN_PerToken:$scores, NN_Ids:$experts);
  let assemblyFormat = [{
    $logits (`bias` $bias^)? `top_k` $top_k (`groups` $groups^)?
    (`top_groups` $top_groups^)? (`sigmoid` $sigmoid^)?
    (`normalized` $normalized^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_RouteGradOp : NN_GradientOp<"route_grad",
    [AllTypesMatch<["logits", "result"]>]> {
  let summary = "Gradient of route's scores with respect to logits";
  let arguments = (ins NN_PerToken:$dscores, NN_PerToken:$scores,
                       NN_Ids:$experts, NN_Activation:$logits,
                       UnitAttr:$sigmoid, UnitAttr:$normalized);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dscores `scores` $scores `experts` $experts `logits` $logits
    (`sigmoid` $sigmoid^)? (`normalized` $normalized^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_JoinOp : NN_ForwardOp<"join"> {
  let summary = "The columns of x, then those of y, then zeros";
  let description = [{
    As many zeros as the result has columns beyond those of x and y.
    ```mlir
    %wide = nn.join %x : (tensor<?x16x8xf32>) -> tensor<?x16x12xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, Optional<NN_Activation>:$y);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x (`,` $y^)? attr-dict `:` functional-type(operands, results)
  }];
}

def NN_CountExpertsOp : NN_ForwardOp<"count_experts",
    [AllTypesMatch<["sums", "result"]>]> {
  let summary = "Adds a layer's choices of experts and their probabilities";
  let description = [{
    sums [B,T,2E]: the first E columns grow by 1 for each expert that the token
    goes to, the others by softmax(logits). Only the latter has a gradient.
    ```mlir
    %more = nn.count_experts %sums, %logits, %experts : (tensor<?x16x16xf32>,
        tensor<?x16x8xf32>, tensor<?x32xi32>) -> tensor<?x16x16xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$sums, NN_Activation:$logits,
                       NN_Ids:$experts);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $sums `,` $logits `,` $experts attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_CountExpertsGradOp : NN_GradientOp<"count_experts_grad",
    [AllTypesMatch<["logits", "result"]>]> {
  let summary = "Gradient of count_experts with respect to logits";
  let arguments = (ins NN_Activation:$dsums, NN_Activation:$logits);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dsums `,` $logits attr-dict `:` functional-type(operands, results)
  }];
}

def NN_BalanceLossOp : NN_ForwardOp<"balance_loss",
    [AllTypesMatch<["loss", "result"]>]> {
  let summary = "Adds to the loss of each token how uneven its sample's experts are";
  let description = [{
    sums [B,T,2E] are those of nn.count_experts over all layers. With F and P the
    sums of their two halves over the n tokens of a sample,
    `result[b,t] = loss[b,t] + factor / n^2 sum_e F_e P_e`, and 0 where the target
    is not counted. Places with the target -2 have no token.
    ```mlir
    %more = nn.balance_loss %loss, %targets, %sums factor 1.0e-03
        : tensor<?x16xf32>, tensor<?x16xi32>, tensor<?x16x16xf32>
    ```
  }];
  let arguments = (ins NN_PerToken:$loss, NN_Ids:$targets, NN_Activation:$sums,
                       F64Attr:$factor);
  let results = (outs NN_PerToken:$result);
  let assemblyFormat = [{
    $loss `,` $targets `,` $sums `factor` $factor attr-dict
    `:` type($loss) `,` type($targets) `,` type($sums)
  }];
}

def NN_BalanceLossGradOp : NN_GradientOp<"balance_loss_grad",
    [AllTypesMatch<["sums", "dsums"]>, AllTypesMatch<["dresult", "dloss"]>]> {
  let summary = "Gradient of balance_loss with respect to loss and sums";
  let arguments = (ins NN_PerToken:$dresult, NN_Ids:$targets,
                       NN_Activation:$sums, F64Attr:$factor);
  let results = (outs NN_PerToken:$dloss, NN_Activation:$dsums);
  let assemblyFormat = [{
    $dresult `,` $targets `,` $sums `factor` $factor attr-dict
    `:` type($dresult) `,` type($targets) `,` type($sums)
  }];
}

/// A weight of an expert, or those of all experts.
def NN_ExpertWeight : AnyTypeOf<[NN_Weight, 3DTensorOf<[NN_Float]>]>;
def NN_ExpertGradient : AnyTypeOf<[NN_F32Matrix, 3DTensorOf<[F32]>]>;

def NN_ExpertLinearOp : NN_ForwardOp<"expert_linear",
    [DeclareOpInterfaceMethods<ModelFactsOpInterface, ["getTensorParts"]>]> {
  let summary = "x W_e^T for each expert e of a token";
  let description = [{
    There is a weight for each expert, [N,K] with layout `out_in` or [K,N] with
    `in_out`, or one stack of all, [E,N,K] or [E,K,N]. Matrices may be quantised
    if they are frozen. x is [B,T,K], which all experts of a token read, or [B,T,k*K], a
    row for each. The result is [B,T,k*N], a row for each, or [B,T,N], the sum of
    them. A weight is multiplied by the rows of the tokens that go to its expert,
    and by no others. The gradient with respect to x is the same op with the
    other layout.
    ```mlir
    %up = nn.expert_linear %x, %experts, %w0, %w1 : (tensor<?x16x8xf32>,
        tensor<?x32xi32>, tensor<24x8xf32>, tensor<24x8xf32>)
        -> tensor<?x16x48xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, NN_Ids:$experts,
                       Variadic<NN_ExpertWeight>:$weights,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $experts `,` $weights (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_ExpertLinearGradWeightOp : NN_GradientOp<"expert_linear_grad_weight"> {
  let summary = "acc_e += dy^T x over the tokens of expert e, for each";
  let description = [{
    The weights are [N,K], or a stack of such. dy and x as the result and x there;
    for weights [K,N], each stands in the place of the other.
  }];
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_Ids:$experts,
                       Variadic<NN_ExpertGradient>:$acc);
  let results = (outs Variadic<NN_ExpertGradient>:$weights);
  let assemblyFormat = [{
    $dy `,` $x `,` $experts `into` $acc attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_WeighOp : NN_ForwardOp<"weigh", [PredOpTrait<
    "result has the type of x", CPred<"$x.getType() == $result.getType()">>]> {
  let summary = "Multiplies the rows of a token's experts by their scores";
  let arguments = (ins NN_Activation:$x, NN_PerToken:$scores);
  let results = (outs NN_Activation:$result);
  let assemblyFormat =
    "$x `,` $scores attr-dict `:` functional-type(operands, results)";
}

def NN_WeighGradOp : NN_GradientOp<"weigh_grad"> {
  let summary = "Sum of dy x over the row of each expert of a token";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x);
  let results = (outs NN_PerToken:$dscores);
  let assemblyFormat =
    "$dy `,` $x attr-dict `:` functional-type(operands, results)";
}

def NN_ScoreOp : NN_ForwardOp<"score",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "1 / (1 + exp(-x)) of one column, which is a score of each token";
  let description = [{
    logits [B,T,1] -> scores [B,T] f32. nn.weigh multiplies by it what an expert
    gives to which all tokens go (Qwen2-MoE's shared expert).
    ```mlir
    %scores = nn.score %logits : (tensor<?x16x1xf32>) -> tensor<?x16xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$logits);
  let results = (outs NN_PerToken:$scores);
  let assemblyFormat =
    "$logits attr-dict `:` functional-type(operands, results)";
}

def NN_ScoreGradOp : NN_GradientOp<"score_grad"> {
  let summary = "dscores s (1 - s), where s is what score gave";
  let arguments = (ins NN_PerToken:$dscores, NN_PerToken:$scores);
  let results = (outs NN_Activation:$dlogits);
  let assemblyFormat =
    "$dscores `,` $scores attr-dict `:` functional-type(operands, results)";
}

def NN_ExpertBiasOp : NN_ForwardOp<"expert_bias", [PredOpTrait<
    "result has the type of x", CPred<"$x.getType() == $result.getType()">>]> {
  let summary = "x + bias_e in the row of each expert e of a token";
  let description = [{
    x is [B,T,k*N] and the bias [E,N] (gpt-oss).
    ```mlir
    %y = nn.expert_bias %x, %experts, %bias : (tensor<?x16x48xf32>,
        tensor<?x32xi32>, tensor<4x24xf32>) -> tensor<?x16x48xf32>
    ```
  }];
  let arguments = (ins NN_Activation:$x, NN_Ids:$experts, NN_Matrix:$bias);
  let results = (outs NN_Activation:$result);
  let assemblyFormat =
    "$x `,` $experts `,` $bias attr-dict `:` functional-type(operands, results)";
}

def NN_ExpertBiasGradOp : NN_GradientOp<"expert_bias_grad",
    [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc_e += the rows of dy that are of expert e";
  let arguments = (ins NN_Activation:$dy, NN_Ids:$experts, NN_F32Matrix:$acc);
  let results = (outs NN_F32Matrix:$result);
  let assemblyFormat = [{
    $dy `,` $experts `into` $acc attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_SpreadScoresOp : NN_ForwardOp<"spread_scores",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "Scores of the chosen experts in the places of all, else 0";
  let description = [{
    scores and experts [B,T*k] -> [B,T,E]. nn.linear with the biases [E,N] of a
    product whose rows are added up gives what these add to the sum.
  }];
  let arguments = (ins NN_PerToken:$scores, NN_Ids:$experts);
  let results = (outs NN_Activation:$result);
  let assemblyFormat =
    "$scores `,` $experts attr-dict `:` functional-type(operands, results)";
}

def NN_SpreadScoresGradOp : NN_GradientOp<"spread_scores_grad"> {
  let summary = "dy in the places of the chosen experts";
  let arguments = (ins NN_Activation:$dy, NN_Ids:$experts);
  let results = (outs NN_PerToken:$dscores);
  let assemblyFormat =
    "$dy `,` $experts attr-dict `:` functional-type(operands, results)";
}

def NN_ClampedGluOp : NN_ForwardOp<"clamped_glu"> {
  let summary = "(u + 1) g sigmoid(alpha g) of neighbouring columns g and u";
  let description = [{
    x [B,T,2N] -> [B,T,N]. Column j is computed from g = min(x_{2j}, limit) and
    u = x_{2j+1}, kept between -limit and limit (gpt-oss).
  }];
  let arguments = (ins NN_Activation:$x, F64Attr:$alpha, F64Attr:$limit);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `alpha` $alpha `limit` $limit attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_ClampedGluGradOp : NN_GradientOp<"clamped_glu_grad",
    [AllTypesMatch<["x", "result"]>]> {
  let summary = "Gradient of clamped_glu, 0 where a column is clamped";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, F64Attr:$alpha,
                       F64Attr:$limit);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dy `,` $x `alpha` $alpha `limit` $limit attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_SinkGradOp : NN_GradientOp<"sink_grad"> {
  let summary = "Gradient of attention's sinks, not yet summed over the tokens";
  let description = [{
    -exp(sink - lse) (dy . out) of each row of a head, f32 [B,T,H]; dy, out and
    lse as in nn.attention_grad.
  }];
  let arguments = (ins NN_Activation:$dy, NN_Activation:$out,
                       3DTensorOf<[F32]>:$lse, NN_Vector:$sinks);
  let results = (outs 3DTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $dy `,` $out `lse` $lse `sinks` $sinks attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // POPLAR_DIALECT_NN_NNGROUPOPS_TD

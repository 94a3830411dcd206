//===- NNOps.td - The nn dialect --------------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNOPS_TD
#define POPLAR_DIALECT_NN_NNOPS_TD

include "Poplar/Dialect/NN/NNBase.td"

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

def NN_ParameterOp : NN_Op<"parameter", [Symbol]> {
  let summary = "A tensor of the model, named as its checkpoint does";
  let description = [{
    ```mlir
    nn.parameter @"transformer.wte.weight" : tensor<256x64xf32> normal 2.0e-02 decay
    nn.parameter @"transformer.ln_f.bias" : tensor<64xf32> zeros
    ```
    `decay` marks tensors under AdamW's decoupled weight decay. `normal` and
    `uniform`, which has the mean 0, take the standard deviation. `log_uniform` is
    the logarithm of a number that is uniform in (0.01, 16), for rates of decay
    (a_log of nn.gated_delta). With `slice`,
    it is a part of a tensor, which devices share (tensor parallelism); the
    initial values are those of the tensor.

    A `frozen` parameter is read and not trained: it has no gradient and no
    optimizer state, and nothing is reduced for it. In stage 3 it is sharded and
    gathered as others are; in lower stages every rank has it whole.
    ```mlir
    nn.parameter @"h.0.q.weight" : tensor<64x64xf32> normal 2.0e-02 frozen
    ```
    A frozen matrix may be quantised: it is rounded when it is loaded.
    ```mlir
    nn.parameter @"h.0.q.weight" : tensor<64x64x!nn.quantized<nf4>> normal frozen
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyStaticShapeTensor>:$type,
                       NN_InitKindAttr:$init,
                       DefaultValuedAttr<F64Attr, "0.0">:$std_dev,
                       UnitAttr:$decay, UnitAttr:$frozen,
                       OptionalAttr<NN_SliceAttr>:$slice);
  let assemblyFormat = [{
    $sym_name `:` $type $init (`std` $std_dev^)? (`decay` $decay^)?
    (`frozen` $frozen^)? (`slice` $slice^)? attr-dict
  }];
  let hasVerifier = 1;
}

def NN_GetParameterOp : NN_Op<"get_parameter",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
     DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "Current value of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyStaticShapeTensor:$value);
  let assemblyFormat = "$parameter attr-dict `:` type($value)";
}

def NN_GetGradientOp : NN_Op<"get_gradient",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Running f32 gradient of a parameter";
  let arguments = (ins FlatSymbolRefAttr:$parameter);
  let results = (outs AnyStaticShapeTensor:$value);
  let assemblyFormat = "$parameter attr-dict `:` type($value)";
}

def NN_SetGradientOp : NN_Op<"set_gradient",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Ends the chain of additions begun by nn.get_gradient";
  let arguments = (ins FlatSymbolRefAttr:$parameter,
                       AnyStaticShapeTensor:$value);
  let assemblyFormat = "$parameter `,` $value attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// The model as a whole
//===----------------------------------------------------------------------===//

def NN_TrainingCostOp : NN_Op<"training_cost", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "FLOPs of the forward and the backward pass of one sample";
  let description = [{
    ```mlir
    nn.training_cost 2.054400e+04
    ```
    Made by `--annotate-cost`; the runtime reports utilisation by it.
  }];
  let arguments = (ins F64Attr:$flops_per_sample);
  let assemblyFormat = "$flops_per_sample attr-dict";
}

//===----------------------------------------------------------------------===//
// Forward ops
//===----------------------------------------------------------------------===//

def NN_EmbeddingOp : NN_ForwardOp<"embedding",
    [DeclareOpInterfaceMethods<ModelFactsOpInterface>], ["isReadInReverse"]> {
  let summary = "Rows of a table: [B,T] ids, [V,D] table -> [B,T,D]";
  let description = [{
    The row `padding_idx` gets no gradient from look-ups, as with
    torch.nn.Embedding (BERT's word embeddings). With `first_row`, the table is
    the part of a larger one that begins there: ids of rows that it does not
    have give zeros. `padding_idx` counts from the first row of the part.
  }];
  let arguments = (ins NN_Ids:$ids, NN_Matrix:$table,
                       OptionalAttr<I64Attr>:$padding_idx,
                       OptionalAttr<I64Attr>:$first_row);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $ids `,` $table (`padding_idx` $padding_idx^)? (`first_row` $first_row^)?
    attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LinearOp : NN_ForwardOp<"linear", [], [], /*hasSplit=*/1> {
  let summary = "x W^T + bias over the last dimension";
  let description = [{
    x is [B,T,K]; the weight is [N,K] with layout `out_in` (the default, as
    torch.nn.Linear stores it) or [K,N] with `in_out` (GPT-2's Conv1D); the
    bias is [N]. The gradient with respect to x is the same op with the other
    layout. With `fp8`, the product and that of its gradient are of operands
    rounded to 8 bits (Runtime/FP8.h), where K and N are multiples of 16.
  }];
  let arguments = (ins NN_Activation:$x, NN_Weight:$weight,
                       Optional<NN_Vector>:$bias,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout,
                       UnitAttr:$fp8);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight (`bias` $bias^)? (`layout` $layout^)? (`fp8` $fp8^)?
    attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LayerNormOp : NN_ForwardOp<"layer_norm"> {
  let summary = "Normalises rows to zero mean and unit variance";
  let description = [{
    Results: y = (x - mean) rstd (gamma + offset) + beta, and per token the f32
    mean and rstd = 1/sqrt(var + eps), which its gradient needs. Statistics are
    computed in f32 for every element type. Without beta, nothing is added
    (Cohere). The offset is 1 where checkpoints hold gamma - 1 (Nemotron).
  }];
  let arguments = (ins NN_Activation:$x, NN_Vector:$gamma,
                       Optional<NN_Vector>:$beta, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs NN_Activation:$result, NN_PerToken:$mean,
                      NN_PerToken:$rstd);
  let assemblyFormat = [{
    $x `,` $gamma (`,` $beta^)? `eps` $eps (`offset` $offset^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_RMSNormOp : NN_ForwardOp<"rms_norm", [], [], /*hasSplit=*/1> {
  let summary = "Divides rows by their root mean square";
  let description = [{
    Results: y = x rstd (gamma + offset), and the f32 rstd =
    1/sqrt(mean(x^2) + eps). With `heads` = h > 1, each row is h rows of [D/h],
    one after the other, with one gamma [D/h] (Qwen3's norms of q and k); rstd
    is [B,T*h] then. The offset is 1 where checkpoints hold gamma - 1 (Gemma).
  }];
  let arguments = (ins NN_Activation:$x, NN_Vector:$gamma, F64Attr:$eps,
                       DefaultValuedAttr<I64Attr, "1">:$heads,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs NN_Activation:$result, NN_PerToken:$rstd);
  let assemblyFormat = [{
    $x `,` $gamma `eps` $eps (`heads` $heads^)? (`offset` $offset^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_AttentionOp : NN_ForwardOp<"attention", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<RandomOpInterface>,
    DeclareOpInterfaceMethods<ModelFactsOpInterface, ["isOncePerLayer",
      "getTensorParts"]>],
    ["isRecomputedWithAttention"], /*hasSplit=*/1,
    ["isDecodable", "buildDecoding"]> {
  let summary = "Scaled dot-product attention, grouped-query, never T x T";
  let description = [{
    q is [B,T,H*d], k and v are [B,T,Hkv*d]; query head h reads key head
    h / (H/Hkv). With k and v absent, q is the packed [B,T,(H + 2 Hkv)*d], q
    first, then k, then v (GPT-2). `causal` masks keys after the query;
    `window` = w > 0 also masks keys more than w - 1 positions before it
    (Mistral). With `keys`, attention probabilities are dropped with
    probability `dropout`, drawn as nn.dropout draws, with op id `op_id` and
    element ((first_head + h)*T + i)*T + j. `cap` > 0 replaces each scaled score
    s by cap tanh(s / cap) before the mask (Gemma 2). With `positions`, several
    documents lie in a sample, one after the other: position p of token i says
    that its document begins at token i - p, and all keys before are masked,
    too; causal attention only. `sinks` [H] are one more score for each row of a
    head, after scale and cap, whose value is 0 (gpt-oss): it only adds to the
    denominator. Results: out [B,T,H*d] and the log-sum-exp of each row's scores,
    f32 [B,H,T], which the gradient needs, both with the sinks. The gradient of
    q, k and v is then what it is without sinks, of these results.
  }];
  let arguments = (ins NN_Activation:$q, Optional<NN_Activation>:$k,
      Optional<NN_Activation>:$v, Optional<NN_Keys>:$keys,
      Optional<NN_Ids>:$positions, Optional<NN_Vector>:$sinks,
      I64Attr:$num_heads, I64Attr:$num_kv_heads,
      F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window,
      DefaultValuedAttr<F64Attr, "0.0">:$dropout,
      DefaultValuedAttr<I64Attr, "0">:$op_id,
      DefaultValuedAttr<I64Attr, "0">:$first_head,
      DefaultValuedAttr<F64Attr, "0.0">:$cap);
  let results = (outs NN_Activation:$result, 3DTensorOf<[F32]>:$lse);
  let assemblyFormat = [{
    $q (`,` $k^ `,` $v)? (`keys` $keys^)? (`positions` $positions^)?
    (`sinks` $sinks^)? (`causal` $causal^)?
    `heads` $num_heads `kv_heads` $num_kv_heads `scale` $scale
    (`window` $window^)? (`dropout` $dropout^)? (`op_id` $op_id^)?
    (`first_head` $first_head^)? (`cap` $cap^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    /// Elements per head.
    int64_t getHeadDim() {
      auto type = ::llvm::cast<::mlir::RankedTensorType>(getResult().getType());
      return type.getDimSize(2) / getNumHeads();
    }
    bool isPacked() { return !getK(); }
  }];
}

def NN_GeluOp : NN_ForwardOp<"gelu", [AllTypesMatch<["x", "result"]>], [],
    /*hasSplit=*/1> {
  let summary = "x Phi(x), exact (erf) or by tanh";
  let arguments = (ins NN_Activation:$x, NN_GeluKindAttr:$form);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$x `form` $form attr-dict `:` type($x)";
}

class NN_UnaryOp<string mnemonic, string what> : NN_ForwardOp<mnemonic,
    [AllTypesMatch<["x", "result"]>], [], /*hasSplit=*/1> {
  let summary = what;
  let arguments = (ins NN_Activation:$x);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 0;
}
def NN_SiluOp : NN_UnaryOp<"silu", "x / (1 + exp(-x))">;
def NN_SigmoidOp : NN_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def NN_ReluOp : NN_UnaryOp<"relu", "max(x, 0)">;

class NN_BinaryOp<string mnemonic, string what> : NN_ForwardOp<mnemonic,
    [Commutative, AllTypesMatch<["lhs", "rhs", "result"]>], [],
    /*hasSplit=*/1> {
  let summary = what;
  let arguments = (ins AnyRankedTensor:$lhs, AnyRankedTensor:$rhs);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs)";
  let hasVerifier = 0;
}
def NN_AddOp : NN_BinaryOp<"add", "Elementwise sum">;
def NN_MulOp : NN_BinaryOp<"mul", "Elementwise product">;

def NN_CastOp : NN_ForwardOp<"cast",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>], [], /*hasSplit=*/1> {
  let summary = "Changes the element type, rounding to nearest even";
  let arguments = (ins AnyRankedTensor:$x);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($result)";
  let hasFolder = 1;
}

def NN_FoldKeyOp : NN_Op<"fold_key",
    [Pure, AllTypesMatch<["keys", "result"]>]> {
  let summary = "Independent keys for one of several calls of a unit";
  let description = [{
    The 64-bit key k = (keys[b,1] << 32 | keys[b,0]) becomes
    splitmix64(k + 0x9E3779B97F4A7C15 * (data + 1)).
  }];
  let arguments = (ins NN_Keys:$keys, I64Attr:$data);
  let results = (outs NN_Keys:$result);
  let assemblyFormat = "$keys `,` $data attr-dict `:` type($keys)";
}

def NN_DropoutOp : NN_ForwardOp<"dropout",
    [AllTypesMatch<["x", "result"]>,
     DeclareOpInterfaceMethods<RandomOpInterface>]> {
  let summary = "Zeroes elements with probability p, scales the rest by 1/(1-p)";
  let description = [{
    Counter-based: element e (row-major in the sample, t*D + d) of sample b is
    kept iff the top 24 bits of
    splitmix64(key[b] + 0x9E3779B97F4A7C15 * (op_id * 2^40 + e + 1)), as an
    integer over 2^24, is >= p. The key is a function of (seed, step, global
    sample), so the mask is the same under any split of the batch and under
    recomputation; the gradient is the same op on the cotangent.

    `tokens` is for devices that share a unit (NNTensorParallel.h): x is a part
    of an activation of T tokens a sample, and the mask is that part of the
    mask. With `tokens [begin, T]`, the rows of x are those from the
    (B * begin)-th of the B * T tokens of the micro-batch on. With
    `tokens [begin, T, first, D]`, the columns of x are moreover those from
    `first` on, of D in all.
  }];
  let arguments = (ins NN_Activation:$x, NN_Keys:$keys, F64Attr:$p,
                       I64Attr:$op_id, OptionalAttr<DenseI64ArrayAttr>:$tokens);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `keys` $keys `p` $p `op_id` $op_id (`tokens` $tokens^)? attr-dict
    `:` type($x) `,` type($keys)
  }];
  let hasFolder = 1;
}

def NN_NoiseOp : NN_ForwardOp<"noise",
    [AllTypesMatch<["x", "result"]>,
     DeclareOpInterfaceMethods<RandomOpInterface>]> {
  let summary = "Adds uniform noise between -magnitude and magnitude";
  let description = [{
    NEFTune (Jain et al., 2023), on embeddings. Element e of a sample gets
    magnitude * (bits / 2^23 - 1), where bits are the 24 that nn.dropout
    compares, with the same `keys`, `op_id` and `tokens`. The gradient of x is
    the cotangent.
  }];
  let arguments = (ins NN_Activation:$x, NN_Keys:$keys, F64Attr:$magnitude,
                       I64Attr:$op_id, OptionalAttr<DenseI64ArrayAttr>:$tokens);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `keys` $keys `magnitude` $magnitude `op_id` $op_id
    (`tokens` $tokens^)? attr-dict `:` type($x) `,` type($keys)
  }];
  let hasFolder = 1;
}

def NN_CrossEntropyOp : NN_ForwardOp<"cross_entropy",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>,
     DeclareOpInterfaceMethods<ModelFactsOpInterface>], [], /*hasSplit=*/1> {
  let summary = "Per-token -log softmax(logits)[target]";
  let description = [{
    logits [B,T,V], targets [B,T]; a target of -1 is not counted and has loss
    0. Results: loss [B,T], not reduced: sums and weights by the global token
    count are the runtime's; and the f32 log-sum-exp [B,T].
  }];
  let arguments = (ins NN_Activation:$logits, NN_Ids:$targets);
  let results = (outs NN_PerToken:$loss, NN_PerToken:$lse);
  let assemblyFormat =
    "$logits `,` $targets attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Gradient ops. Those with an `acc` operand return acc + gradient, in f32.
//===----------------------------------------------------------------------===//

def NN_EmbeddingGradOp : NN_GradientOp<"embedding_grad",
    [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc[ids[b,t], :] += dy[b,t,:], in token order";
  let arguments = (ins NN_Activation:$dy, NN_Ids:$ids, NN_F32Matrix:$acc,
                       OptionalAttr<I64Attr>:$padding_idx,
                       OptionalAttr<I64Attr>:$first_row);
  let results = (outs NN_F32Matrix:$result);
  let assemblyFormat = [{
    $dy `,` $ids `into` $acc (`padding_idx` $padding_idx^)?
    (`first_row` $first_row^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LinearGradWeightOp : NN_GradientOp<"linear_grad_weight",
    [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc += dy^T x (out_in) or x^T dy (in_out), over all tokens";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_F32Matrix:$acc,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout);
  let results = (outs NN_F32Matrix:$result);
  let assemblyFormat = [{
    $dy `,` $x `into` $acc (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_SumRowsOp : NN_GradientOp<"sum_rows",
    [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc[:] += sum_{b,t} dy[b,t,:] (gradient of a bias)";
  let arguments = (ins NN_Activation:$dy, NN_F32Vector:$acc);
  let results = (outs NN_F32Vector:$result);
  let assemblyFormat =
    "$dy `into` $acc attr-dict `:` functional-type(operands, results)";
}

// Not AllTypesMatch: the type inference it implies numbers operands as if the
// optional one were always there.
def NN_NormGradGammaOp : NN_GradientOp<"norm_grad_gamma",
    [PredOpTrait<"result has the type of acc",
       CPred<"$acc.getType() == $result.getType()">>]> {
  let summary = "acc[:] += sum_{b,t} dy (x - mean) rstd";
  let description =
    "Without `mean`, the gradient of rms_norm's gamma, `heads` as there.";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x,
                       NN_PerToken:$rstd, Optional<NN_PerToken>:$mean,
                       NN_F32Vector:$acc,
                       DefaultValuedAttr<I64Attr, "1">:$heads);
  let results = (outs NN_F32Vector:$result);
  let assemblyFormat = [{
    $dy `,` $x `rstd` $rstd (`mean` $mean^)? `into` $acc (`heads` $heads^)?
    attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LayerNormGradOp : NN_GradientOp<"layer_norm_grad"> {
  let summary = "Gradient of layer_norm with respect to x";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_Vector:$gamma,
                       NN_PerToken:$mean, NN_PerToken:$rstd,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `mean` $mean `rstd` $rstd (`offset` $offset^)?
    attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_RMSNormGradOp : NN_GradientOp<"rms_norm_grad"> {
  let summary = "Gradient of rms_norm with respect to x";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_Vector:$gamma,
                       NN_PerToken:$rstd,
                       DefaultValuedAttr<I64Attr, "1">:$heads,
                       DefaultValuedAttr<F64Attr, "0.0">:$offset);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $dy `,` $x `,` $gamma `rstd` $rstd (`heads` $heads^)? (`offset` $offset^)?
    attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_AttentionGradOp : NN_GradientOp<"attention_grad",
    [AttrSizedOperandSegments, SameVariadicResultSize]> {
  let summary = "Gradient of attention with respect to q, k, v (or packed)";
  let description = "Attributes and operand forms as in nn.attention.";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$out,
      3DTensorOf<[F32]>:$lse, NN_Activation:$q, Optional<NN_Activation>:$k,
      Optional<NN_Activation>:$v, Optional<NN_Keys>:$keys,
      Optional<NN_Ids>:$positions, I64Attr:$num_heads, I64Attr:$num_kv_heads,
      F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window,
      DefaultValuedAttr<F64Attr, "0.0">:$dropout,
      DefaultValuedAttr<I64Attr, "0">:$op_id,
      DefaultValuedAttr<I64Attr, "0">:$first_head,
      DefaultValuedAttr<F64Attr, "0.0">:$cap);
  let results = (outs NN_Activation:$dq, Optional<NN_Activation>:$dk,
                      Optional<NN_Activation>:$dv);
  let assemblyFormat = [{
    $dy `out` $out `lse` $lse `qkv` $q (`,` $k^ `,` $v)? (`keys` $keys^)?
    (`positions` $positions^)? (`causal` $causal^)? `heads` $num_heads `kv_heads` $num_kv_heads
    `scale` $scale (`window` $window^)? (`dropout` $dropout^)?
    (`op_id` $op_id^)? (`first_head` $first_head^)? (`cap` $cap^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    int64_t getHeadDim() {
      auto type = ::llvm::cast<::mlir::RankedTensorType>(getDy().getType());
      return type.getDimSize(2) / getNumHeads();
    }
    bool isPacked() { return !getK(); }
  }];
}

def NN_GeluGradOp : NN_GradientOp<"gelu_grad",
    [AllTypesMatch<["dy", "x", "result"]>]> {
  let summary = "dy gelu'(x)";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x,
                       NN_GeluKindAttr:$form);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$dy `,` $x `form` $form attr-dict `:` type($x)";
  let hasVerifier = 0;
}

//===----------------------------------------------------------------------===//
// Products with what a library does before it stores the result
// (--fuse-gemm-epilogues)
//===----------------------------------------------------------------------===//

def NN_LinearGeluOp : NN_GradientOp<"linear_gelu"> {
  let summary = "gelu(x W^T + bias), and what GELU was given if that is needed";
  let description = [{
    GELU is that by tanh. Only `pre` is rounded between product and GELU.
  }];
  let arguments = (ins NN_Activation:$x, NN_Weight:$weight, NN_Vector:$bias,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout,
                       UnitAttr:$fp8);
  let results = (outs NN_Activation:$result, Optional<NN_Activation>:$pre);
  let assemblyFormat = [{
    $x `,` $weight `bias` $bias (`layout` $layout^)? (`fp8` $fp8^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LinearGeluGradOp : NN_GradientOp<"linear_gelu_grad"> {
  let summary = "(x W^T) gelu'(pre)";
  let description = "The gradient of what went into GELU, which is that by tanh.";
  let arguments = (ins NN_Activation:$x, NN_Weight:$weight, NN_Activation:$pre,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout,
                       UnitAttr:$fp8);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $weight `pre` $pre (`layout` $layout^)? (`fp8` $fp8^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_LinearGradWeightBiasOp : NN_GradientOp<"linear_grad_weight_bias",
    [AllTypesMatch<["acc", "result"]>, AllTypesMatch<["bias_acc", "bias"]>]> {
  let summary = "nn.linear_grad_weight, and nn.sum_rows of the same gradient";
  let description = "What is added to each gradient is rounded to f32 before.";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x, NN_F32Matrix:$acc,
                       NN_F32Vector:$bias_acc,
                       DefaultValuedAttr<NN_WeightLayoutAttr,
                         "::poplar::nn::WeightLayout::OutIn">:$layout);
  let results = (outs NN_F32Matrix:$result, NN_F32Vector:$bias);
  let assemblyFormat = [{
    $dy `,` $x `into` $acc `bias` $bias_acc (`layout` $layout^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

class NN_UnaryGradOp<string mnemonic, string what> : NN_GradientOp<mnemonic,
    [AllTypesMatch<["dy", "x", "result"]>]> {
  let summary = what;
  let arguments = (ins NN_Activation:$dy, NN_Activation:$x);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$dy `,` $x attr-dict `:` type($x)";
  let hasVerifier = 0;
}
def NN_SiluGradOp : NN_UnaryGradOp<"silu_grad", "dy silu'(x)">;
/// Where y is what sigmoid gave.
def NN_SigmoidGradOp : NN_UnaryGradOp<"sigmoid_grad", "dy x (1 - x), where x is what sigmoid gave">;
def NN_ReluGradOp : NN_UnaryGradOp<"relu_grad", "dy where x > 0, else 0">;

def NN_CrossEntropyGradOp : NN_GradientOp<"cross_entropy_grad"> {
  let summary = "dloss (softmax(logits) - onehot(target)), 0 where uncounted";
  let description = [{
    logits [B,T,V], targets, lse and dloss [B,T]. With `first_column`, the logits
    are those from that column of the vocabulary on; lse is that of all.
  }];
  let arguments = (ins NN_Activation:$logits, NN_Ids:$targets,
                       NN_PerToken:$lse, NN_PerToken:$dloss,
                       OptionalAttr<I64Attr>:$first_column);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $logits `,` $targets `lse` $lse `dloss` $dloss
    (`first_column` $first_column^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Optimizer
//===----------------------------------------------------------------------===//

def NN_AdamWOp : NN_Op<"adamw", [Pure]> {
  let summary = "One AdamW step (Loshchilov & Hutter 2019) on flat f32 state";
  let description = [{
    p, g, m, v are flat [n] (a parameter or a shard of one). `hyper` holds
    lr, beta1, beta2, eps, weight_decay, 1 - beta1^t, 1 - beta2^t, grad_scale.
    With g' = g * grad_scale: m' = b1 m + (1-b1) g'; v' = b2 v + (1-b2) g'^2;
    p' = p (1 - lr wd) - lr (m'/(1-b1^t)) / (sqrt(v'/(1-b2^t)) + eps).
  }];
  let arguments = (ins NN_F32Vector:$p, NN_F32Vector:$g, NN_F32Vector:$m,
                       NN_F32Vector:$v, NN_F32Vector:$hyper);
  let results = (outs NN_F32Vector:$new_p, NN_F32Vector:$new_m,
                      NN_F32Vector:$new_v);
  let assemblyFormat = [{
    $p `,` $g `,` $m `,` $v `hyper` $hyper attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

include "Poplar/Dialect/NN/NNCacheOps.td"
include "Poplar/Dialect/NN/NNColumnOps.td"
include "Poplar/Dialect/NN/NNPositionOps.td"

#endif // POPLAR_DIALECT_NN_NNOPS_TD

//===- NNColumnOps.td - Ops that move or change columns ---*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by NNOps.td, whose classes it uses.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNCOLUMNOPS_TD
#define POPLAR_DIALECT_NN_NNCOLUMNOPS_TD

def NN_RopeOp : NN_ForwardOp<"rope",
    [AllTypesMatch<["x", "result"]>], [], /*hasSplit=*/1, ["buildDecoding"]> {
  let summary = "Rotary position embedding";
  let description = [{
    x is [B,T,H*head_dim]. For every head and j < n, with n frequencies and
    a = t * inv_freq[j], the pair (x_j, x_{j + n}), as of Llama in transformers,
    or with `interleaved` (x_{2j}, x_{2j + 1}), is rotated by a (by -a with
    `inverse`, which is the gradient) and multiplied by `scale` (attention
    factor of scaled RoPE). Scaling schemes differ in the inv_freq that the
    importer computes. What follows the first 2n columns of a head stays as it
    is (partial rotary embeddings), as do all heads after the first `heads`,
    unless that is 0 (the values of a packed q, k, v). With `at`,
    positions[b,t], which is below `length`, stands for t: of new tokens, or
    where documents share samples.
  }];
  let arguments = (ins NN_Activation:$x, Optional<NN_Ids>:$positions,
                       I64Attr:$head_dim,
                       DenseF64ArrayAttr:$inv_freq,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       UnitAttr:$inverse,
                       DefaultValuedAttr<I64Attr, "0">:$heads,
                       DefaultValuedAttr<I64Attr, "0">:$length,
                       UnitAttr:$interleaved);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x (`at` $positions^)? (`length` $length^)? (`inverse` $inverse^)?
    (`interleaved` $interleaved^)?
    `head_dim` $head_dim `inv_freq` custom<Frequencies>($inv_freq)
    (`scale` $scale^)? (`heads` $heads^)? attr-dict `:` type($x)
    (`,` type($positions)^)?
  }];
}

def NN_ScaleOp : NN_ForwardOp<"scale",
    [AllTypesMatch<["x", "result"]>], [], /*hasSplit=*/1> {
  let summary = "x * factor";
  let description = "The multipliers of Granite, the embeddings of Gemma.";
  let arguments = (ins NN_Activation:$x, F64Attr:$factor);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$x `factor` $factor attr-dict `:` type($x)";
}

def NN_SoftcapOp : NN_ForwardOp<"softcap",
    [AllTypesMatch<["x", "result"]>], [], /*hasSplit=*/1> {
  let summary = "cap tanh(x / cap): keeps values between -cap and cap";
  let description = "Gemma 2 caps its logits.";
  let arguments = (ins NN_Activation:$x, F64Attr:$cap);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$x `cap` $cap attr-dict `:` type($x)";
}

def NN_SoftcapGradOp : NN_GradientOp<"softcap_grad",
    [AllTypesMatch<["dy", "y", "result"]>]> {
  let summary = "dy (1 - (y / cap)^2), where y is what softcap gave";
  let arguments = (ins NN_Activation:$dy, NN_Activation:$y, F64Attr:$cap);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = "$dy `,` $y `cap` $cap attr-dict `:` type($y)";
  let hasVerifier = 0;
}

def NN_SliceOp : NN_ForwardOp<"slice"> {
  let summary = "Columns from `offset` on, as many as the result has";
  let description = [{
    Where a checkpoint stores the weights of several products as one (Phi-3's
    gate_up_proj), the product is one, too, and this takes it apart.
  }];
  let arguments = (ins NN_Activation:$x, I64Attr:$offset);
  let results = (outs NN_Activation:$result);
  let assemblyFormat =
    "$x `offset` $offset attr-dict `:` functional-type(operands, results)";
}

def NN_SliceGradOp : NN_GradientOp<"slice_grad"> {
  let summary = "dy in the columns from `offset` on, zero in all others";
  let arguments = (ins NN_Activation:$dy, I64Attr:$offset);
  let results = (outs NN_Activation:$result);
  let assemblyFormat =
    "$dy `offset` $offset attr-dict `:` functional-type(operands, results)";
}

#endif // POPLAR_DIALECT_NN_NNCOLUMNOPS_TD

//===- NNPositionOps.td - Embeddings of positions ---------*- tablegen -*-===//
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

#ifndef POPLAR_DIALECT_NN_NNPOSITIONOPS_TD
#define POPLAR_DIALECT_NN_NNPOSITIONOPS_TD

def NN_PositionEmbeddingOp : NN_ForwardOp<"position_embedding", [],
    ["isReadInReverse"], /*hasSplit=*/0, ["buildDecoding"]> {
  let summary = "Adds row t of a table (or row 0 always) to position t";
  let description = [{
    `result[b,t,:] = x[b,t,:] + table[constant_row ? 0 : t, :]`; the table has
    at least T rows (one with `constant_row`, which serves BERT's token types).
    With `at`, positions[b,t] stands for t: of new tokens, or where documents
    share samples. The gradient of the table is an nn.embedding_grad then.
  }];
  let arguments = (ins NN_Activation:$x, NN_Matrix:$table,
                       Optional<NN_Ids>:$positions, UnitAttr:$constant_row);
  let results = (outs NN_Activation:$result);
  let assemblyFormat = [{
    $x `,` $table (`at` $positions^)? (`constant_row` $constant_row^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def NN_PositionEmbeddingGradOp : NN_GradientOp<"position_embedding_grad",
    [AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc[constant_row ? 0 : t, :] += sum_b dy[b,t,:]";
  let arguments = (ins NN_Activation:$dy, NN_F32Matrix:$acc,
                       UnitAttr:$constant_row);
  let results = (outs NN_F32Matrix:$result);
  let assemblyFormat = [{
    $dy `into` $acc (`constant_row` $constant_row^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // POPLAR_DIALECT_NN_NNPOSITIONOPS_TD

// RUN: not poplar-opt %s --nn-add-adapters="targets=q_proj" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not poplar-opt %s --nn-add-adapters="targets=h.0.fc" 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc rank=0" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc alpha=0" 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc dropout=1" 2>&1 | FileCheck %s --check-prefix=DROPOUT
// RUN: not poplar-opt %s --nn-add-adapters 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc" --nn-add-adapters="targets=fc" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc saved=wte" 2>&1 | FileCheck %s --check-prefix=TIED
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc saved=lm_head" 2>&1 | FileCheck %s --check-prefix=SAVED
// RUN: not poplar-opt %s --nn-add-adapters="targets=fc saved=fc" 2>&1 | FileCheck %s --check-prefix=BOTH

// The tied head is the table of the embedding, and no layer of its own.
// NAME: error: no linear layer is called 'q_proj'; the model has: fc{{$}}
// SOME: error: 'nn.linear' op is to be adapted in 1 of the 2 layers that share @block; name the module without the number of a layer
// RANK: error: the rank of adapters is 0, expected 1 to 65536
// ALPHA: error: the alpha of adapters is 0.000000e+00, expected a number above 0
// DROPOUT: error: the dropout of adapters is 1.000000e+00, expected a number in [0, 1)
// NONE: error: there are no modules to adapt: name some, or all-linear
// TWICE: error: has adapters already
// TIED: error: 'nn.parameter' op serves as an embedding and as the head, of which PEFT would train a copy each; leave 'wte' out of the modules to save
// SAVED: error: no module to save is called 'lm_head'; the model has: wte, fc{{$}}
// BOTH: error: 'nn.parameter' op is of 'fc', which is to have an adapter and to be trained as a whole; name it once

module attributes {nn.model = {vocab_size = 16 : i64}} {
nn.parameter @wte.weight : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @h.0.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @h.1.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}
func.func private @loss(%x: tensor<?x4x16xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte.weight : tensor<16x8xf32>
  %x = func.call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %w0 = nn.get_parameter @h.0.fc.weight : tensor<8x8xf32>
  %y = func.call @block(%x, %w0) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %w1 = nn.get_parameter @h.1.fc.weight : tensor<8x8xf32>
  %z = func.call @block(%y, %w1) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %logits = func.call @head(%z, %wte) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
}

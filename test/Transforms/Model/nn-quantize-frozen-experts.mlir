// RUN: poplar-opt %s --nn-quantize-frozen="experts=true" | FileCheck %s
// RUN: poplar-opt %s --nn-quantize-frozen | FileCheck %s --check-prefix=WITHOUT
// RUN: poplar-opt %s --nn-quantize-frozen="format=int8 experts=true" --nn-convert-precision="type=bf16" --nn-differentiate | FileCheck %s --check-prefix=TRAIN
// RUN: poplar import %examples/models/tiny-llama.json --lora-rank 4 -o %t.mlir
// RUN: not poplar-opt %t.mlir --nn-quantize-frozen="experts=true" 2>&1 | FileCheck %s --check-prefix=NONE

// The weights of experts are quantised if that is asked for, the router is not.
// CHECK-DAG: nn.parameter @q.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK-DAG: nn.parameter @gate.weight : tensor<2x8xf32>
// CHECK-DAG: nn.parameter @experts.0.w1.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK-DAG: nn.parameter @experts.1.w1.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK:     nn.expert_linear {{.*}} : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<8x8x!nn.quantized<nf4>>, tensor<8x8x!nn.quantized<nf4>>) -> tensor<?x4x8xf32>

// WITHOUT-DAG: nn.parameter @q.weight : tensor<8x8x!nn.quantized<nf4>>
// WITHOUT-DAG: nn.parameter @experts.0.w1.weight : tensor<8x8xf32>

// The gradient of what experts read is a product with the same bytes.
// TRAIN-LABEL: func.func private @block.backward(
// TRAIN:         nn.expert_linear {{.*}} layout in_out : (tensor<?x4x8xbf16>, tensor<?x4xi32>, tensor<8x8x!nn.quantized<int8>>, tensor<8x8x!nn.quantized<int8>>) -> tensor<?x4x8xbf16>
// TRAIN-NOT:     nn.expert_linear_grad_weight

// NONE: error: has no experts whose weights could be quantised: leave out --quantize-experts

module attributes {nn.model = {num_parameters = 464 : i64, vocab_size = 16 : i64, hidden_size = 8 : i64, seq_len = 4 : i64}} {
nn.parameter @wte.weight : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @q.weight : tensor<8x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @gate.weight : tensor<2x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @experts.0.w1.weight : tensor<8x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @experts.1.w1.weight : tensor<8x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @head.weight : tensor<16x8xf32> normal std 2.0e-02 decay frozen
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}, %r: tensor<2x8xf32> {nn.parameter}, %a: tensor<8x8xf32> {nn.parameter}, %b: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %y = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %logits = nn.linear %y, %r : (tensor<?x4x8xf32>, tensor<2x8xf32>) -> tensor<?x4x2xf32>
  %scores, %experts = nn.route %logits top_k 1 : (tensor<?x4x2xf32>) -> (tensor<?x4xf32>, tensor<?x4xi32>)
  %z = nn.expert_linear %y, %experts, %a, %b : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.weigh %z, %scores : (tensor<?x4x8xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
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
  %q = nn.get_parameter @q.weight : tensor<8x8xf32>
  %r = nn.get_parameter @gate.weight : tensor<2x8xf32>
  %a = nn.get_parameter @experts.0.w1.weight : tensor<8x8xf32>
  %b = nn.get_parameter @experts.1.w1.weight : tensor<8x8xf32>
  %y = func.call @block(%x, %q, %r, %a, %b) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<2x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %h = nn.get_parameter @head.weight : tensor<16x8xf32>
  %logits = func.call @head(%y, %h) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
}

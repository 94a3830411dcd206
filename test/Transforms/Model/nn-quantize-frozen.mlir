// RUN: poplar-opt %s --nn-quantize-frozen | FileCheck %s
// RUN: poplar-opt %s --nn-quantize-frozen="format=nf4_double" | FileCheck %s --check-prefix=DOUBLE
// RUN: poplar-opt %s --nn-quantize-frozen --zero-form-buckets="min-bytes=0" | FileCheck %s --check-prefix=BUCKETS
// RUN: poplar-opt %s --nn-quantize-frozen --nn-convert-precision="type=bf16" --nn-differentiate | FileCheck %s --check-prefix=TRAIN

// Frozen weights of linear layers become quantised. Biases, embeddings, what is
// trained, and the layer that makes the logits do not.
// CHECK-DAG: nn.parameter @wte.weight : tensor<16x8xf32> {{ *}}normal std 2.000000e-02 decay frozen
// CHECK-DAG: nn.parameter @h.0.fc.weight : tensor<8x8x!nn.quantized<nf4>> {{ *}}normal std 2.000000e-02 decay frozen
// CHECK-DAG: nn.parameter @h.1.fc.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK-DAG: nn.parameter @h.0.fc.bias : tensor<8xf32> {{ *}}zeros frozen
// CHECK-DAG: nn.parameter @h.0.up.weight : tensor<8x8xf32> {{ *}}zeros decay{{$}}
// CHECK-DAG: nn.parameter @position.weight : tensor<4x8xf32>
// CHECK-DAG: nn.parameter @head.weight : tensor<16x8xf32>
// CHECK-LABEL: func.func private @block(
// CHECK-SAME:    %[[W:[^:]*]]: tensor<8x8x!nn.quantized<nf4>> {nn.parameter}
// CHECK:         nn.linear %{{.*}}, %[[W]] bias %{{.*}} : (tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>, tensor<8xf32>) -> tensor<?x4x8xf32>
// CHECK-LABEL: func.func @model(
// CHECK:         nn.get_parameter @h.0.fc.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK:         nn.get_parameter @h.1.fc.weight : tensor<8x8x!nn.quantized<nf4>>

// DOUBLE: nn.parameter @h.0.fc.weight : tensor<8x8x!nn.quantized<nf4_double>>

// BUCKETS: zero.bucket @block.0 [@h.0.up.weight]
// BUCKETS: zero.bucket @block.0.frozen [@h.0.fc.bias] frozen
// BUCKETS: zero.bucket @block.0.frozen.quantized [@h.0.fc.weight] frozen quantized
// BUCKETS: zero.bucket @block.1.frozen.quantized [@h.1.fc.weight] frozen quantized

// The gradient of the activation is a product with the same bytes.
// TRAIN-LABEL: func.func private @block.backward(
// TRAIN:         nn.linear %{{.*}}, %{{.*}} layout in_out : (tensor<?x4x8xbf16>, tensor<8x8x!nn.quantized<nf4>>) -> tensor<?x4x8xbf16>
// TRAIN-NOT:     nn.linear_grad_weight{{.*}}quantized

module attributes {nn.model = {num_parameters = 560 : i64, vocab_size = 16 : i64, hidden_size = 8 : i64, seq_len = 4 : i64}} {
nn.parameter @wte.weight : tensor<16x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @position.weight : tensor<4x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @h.0.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @h.0.fc.bias : tensor<8xf32> zeros frozen
nn.parameter @h.0.up.weight : tensor<8x8xf32> zeros decay
nn.parameter @h.1.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay frozen
nn.parameter @h.1.fc.bias : tensor<8xf32> zeros frozen
nn.parameter @h.1.up.weight : tensor<8x8xf32> zeros decay
nn.parameter @head.weight : tensor<16x8xf32> normal std 2.0e-02 decay frozen
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}, %p: tensor<4x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.position_embedding %0, %p : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}, %b: tensor<8xf32> {nn.parameter}, %u: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %x, %u : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.add %0, %1 : tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
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
  %p = nn.get_parameter @position.weight : tensor<4x8xf32>
  %x = func.call @embed(%ids, %wte, %p) : (tensor<?x4xi32>, tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %w0 = nn.get_parameter @h.0.fc.weight : tensor<8x8xf32>
  %b0 = nn.get_parameter @h.0.fc.bias : tensor<8xf32>
  %u0 = nn.get_parameter @h.0.up.weight : tensor<8x8xf32>
  %y = func.call @block(%x, %w0, %b0, %u0) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %w1 = nn.get_parameter @h.1.fc.weight : tensor<8x8xf32>
  %b1 = nn.get_parameter @h.1.fc.bias : tensor<8xf32>
  %u1 = nn.get_parameter @h.1.up.weight : tensor<8x8xf32>
  %z = func.call @block(%y, %w1, %b1, %u1) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %h = nn.get_parameter @head.weight : tensor<16x8xf32>
  %logits = func.call @head(%z, %h) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
}

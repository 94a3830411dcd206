// RUN: poplar-opt %s --nn-differentiate=chunk-bytes=255 | FileCheck %s
// RUN: poplar-opt %s --nn-differentiate="chunk-bytes=255 recompute=recompute-unit" | FileCheck %s --check-prefixes=CHECK,UNIT
// RUN: poplar-opt %s --nn-differentiate=chunk-bytes=256 | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/{nn.unit} { \/\/ loss/{nn.unit, nn.chunk_bytes = 255 : i64} {/' %s \
// RUN:   | poplar-opt --nn-differentiate | FileCheck %s

// The logits of a sample take 4*16 f32, 256 bytes.

nn.parameter @"norm.g" : tensor<8xf32> ones
nn.parameter @"head.w" : tensor<16x8xf32> normal std 2.0e-02 decay

// @infer gives them whole.
// CHECK-LABEL: func.func private @head(
// CHECK:         nn.linear
// WHOLE-LABEL: func.func private @head.forward(
func.func private @head(%x: tensor<?x4x8xf32>, %g: tensor<8xf32> {nn.parameter},
    %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %y, %rstd = nn.rms_norm %x, %g eps 1.0e-05 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  %0 = nn.linear %y, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// Training has them in no argument or result of a function. Of the loss, their
// log-sum-exps are kept whatever the policy is.
// CHECK-LABEL: func.func private @head.loss(
// CHECK-SAME:    %{{.*}}: tensor<?x4x8xf32>, %{{.*}}: tensor<8xf32> {nn.parameter}, %{{.*}}: tensor<16x8xf32> {nn.parameter}, %{{.*}}: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.chunk_bytes = 255 : i64, nn.unit}
// CHECK-LABEL: func.func private @head.loss.forward(
// CHECK-NOT:     x16xf32>{{.*}}nn.chunk_bytes
// CHECK-SAME:    nn.chunk_bytes = 255
// CHECK:         %[[LOGITS:.*]] = nn.linear
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = nn.cross_entropy %[[LOGITS]]
// CHECK:         return %[[LOSS]]
// CHECK-SAME:    %[[LSE]]
// CHECK-LABEL: func.func private @head.loss.backward(
// CHECK-SAME:    nn.chunk_bytes = 255
// UNIT:          nn.rms_norm
// CHECK:         %[[LOGITS:.*]] = nn.linear
// CHECK-NOT:     nn.cross_entropy %
// CHECK:         %[[D:.*]] = nn.cross_entropy_grad %[[LOGITS]]
// CHECK:         nn.linear %[[D]]
// CHECK:         nn.linear_grad_weight %[[D]]
func.func private @loss(%logits: tensor<?x4x16xf32>, %targets: tensor<?x4xi32>)
    -> tensor<?x4xf32> attributes {nn.unit} { // loss
  %loss, %lse = nn.cross_entropy %logits, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %loss : tensor<?x4xf32>
}

nn.parameter @wte : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %wte: tensor<16x8xf32> {nn.parameter})
    -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %wte : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// CHECK-DAG:  func.func @evaluate
// CHECK-DAG:  call @head.loss(
// CHECK-DAG:  func.func @infer
// CHECK-DAG:  call @head(
// CHECK-DAG:  call @head.loss.forward(
// CHECK-DAG:  call @head.loss.backward(
// WHOLE:      call @loss.backward(
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>)
    -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xf32>
  %g = nn.get_parameter @"norm.g" : tensor<8xf32>
  %w = nn.get_parameter @"head.w" : tensor<16x8xf32>
  %x = call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %logits = call @head(%x, %g, %w) : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

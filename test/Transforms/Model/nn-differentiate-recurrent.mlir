// RUN: poplar-opt %s --nn-differentiate | FileCheck %s

// Linear attention: the backward pass reads what the forward pass read and no
// states. The gradients of a_log and of dt_bias are sums over the tokens, and that
// of the filters is added to the running one. A sigmoid is kept as it came out.

nn.parameter @wte : tensor<16x20xf32> normal std 2.0e-02 decay
nn.parameter @filters : tensor<20x1x4xf32> normal std 2.0e-02 decay
nn.parameter @wa : tensor<2x20xf32> normal std 2.0e-02 decay
nn.parameter @a_log : tensor<2xf32> log_uniform
nn.parameter @dt_bias : tensor<2xf32> ones
nn.parameter @out : tensor<16x12xf32> normal std 2.0e-02 decay

func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x20xf32> {nn.parameter}) -> tensor<?x4x20xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x20xf32>) -> tensor<?x4x20xf32>
  return %0 : tensor<?x4x20xf32>
}

// CHECK-LABEL: func.func private @mix.forward(
// CHECK:         %[[X:.*]] = nn.causal_conv
// CHECK:         %[[A:.*]] = nn.linear
// CHECK:         %[[Y:.*]] = nn.gated_delta %[[X]], %[[A]], %[[A]],
// CHECK:         %[[S:.*]] = nn.sigmoid %[[Y]]
// CHECK:         return %[[S]], %[[X]], %[[A]] :
// CHECK-LABEL: func.func private @mix.backward(
// CHECK:         %[[DS:.*]] = nn.sigmoid_grad
// CHECK:         %{{.*}}, %[[DA:.*]], %{{.*}}, %[[DLOG:.*]], %{{.*}} = nn.gated_delta_grad %[[DS]],
// CHECK-DAG:     nn.sum_rows %[[DLOG]] into
// CHECK-DAG:     nn.sum_rows %[[DA]] into
// CHECK:         nn.causal_conv_grad
// CHECK:         nn.causal_conv_grad_weight {{.*}} into
func.func private @mix(%x: tensor<?x4x20xf32>, %f: tensor<20x1x4xf32> {nn.parameter}, %wa: tensor<2x20xf32> {nn.parameter},
    %log: tensor<2xf32> {nn.parameter}, %bias: tensor<2xf32> {nn.parameter}) -> tensor<?x4x12xf32> attributes {nn.unit} {
  %0 = nn.causal_conv %x, %f : (tensor<?x4x20xf32>, tensor<20x1x4xf32>) -> tensor<?x4x20xf32>
  %1 = nn.linear %x, %wa : (tensor<?x4x20xf32>, tensor<2x20xf32>) -> tensor<?x4x2xf32>
  %2 = nn.gated_delta %0, %1, %1, %log, %bias key_heads 1 value_heads 2 : (tensor<?x4x20xf32>, tensor<?x4x2xf32>, tensor<?x4x2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x4x12xf32>
  %3 = nn.sigmoid %2 : tensor<?x4x12xf32>
  return %3 : tensor<?x4x12xf32>
}

func.func private @head(%x: tensor<?x4x12xf32>, %w: tensor<16x12xf32> {nn.parameter}, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x12xf32>, tensor<16x12xf32>) -> tensor<?x4x16xf32>
  %1:2 = nn.cross_entropy %0, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %1#0 : tensor<?x4xf32>
}

func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x20xf32>
  %f = nn.get_parameter @filters : tensor<20x1x4xf32>
  %wa = nn.get_parameter @wa : tensor<2x20xf32>
  %log = nn.get_parameter @a_log : tensor<2xf32>
  %bias = nn.get_parameter @dt_bias : tensor<2xf32>
  %out = nn.get_parameter @out : tensor<16x12xf32>
  %x0 = func.call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x20xf32>) -> tensor<?x4x20xf32>
  %x1 = func.call @mix(%x0, %f, %wa, %log, %bias) : (tensor<?x4x20xf32>, tensor<20x1x4xf32>, tensor<2x20xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x4x12xf32>
  %loss = func.call @head(%x1, %out, %targets) : (tensor<?x4x12xf32>, tensor<16x12xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

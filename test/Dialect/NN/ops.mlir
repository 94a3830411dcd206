// RUN: poplar-opt %s | poplar-opt | FileCheck %s

nn.parameter @"wte.weight" : tensor<16x8xf32> normal std 2.0e-02 decay

// CHECK-LABEL: func.func private @unit
func.func private @unit(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter},
    %g: tensor<8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %1:2 = nn.rms_norm %0, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  %2 = nn.rope %1#0 head_dim 4 inv_freq [1.0, 0.01] : tensor<?x4x8xf32>
  %3:2 = nn.attention %2, %2, %1#0 causal heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %4 = nn.dropout %3#0 keys %keys p 0.1 op_id 3 : tensor<?x4x8xf32>, tensor<?x2xi32>
  %5 = nn.gelu %4 form tanh : tensor<?x4x8xf32>
  %6 = nn.linear %5, %w layout out_in : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %5 : tensor<?x4x8xf32>
}

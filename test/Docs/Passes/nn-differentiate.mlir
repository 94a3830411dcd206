// RUN: poplar-opt %s --nn-differentiate | FileCheck %s

// The forward function also returns what the backward function reads: here the
// input of the activation.
nn.parameter @w : tensor<8x8xf32> normal std 0.02
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.silu %0 : tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %loss : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = call @loss(%1, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// The result:
//
// CHECK:   func.func private @block.forward(%arg0: tensor<?x4x8xf32>, %arg1: tensor<8x8xf32> {nn.parameter}) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %1 = nn.silu %0 : tensor<?x4x8xf32>
// CHECK-NEXT:     return %1, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK:   func.func private @block.backward(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4x8xf32>, %arg2: tensor<8x8xf32> {nn.parameter}, %arg3: tensor<?x4x8xf32>, %arg4: tensor<8x8xf32> {nn.gradient}) -> (tensor<?x4x8xf32>, tensor<8x8xf32>) attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.silu_grad %arg3, %arg0 : tensor<?x4x8xf32>
// CHECK-NEXT:     %1 = nn.linear %0, %arg2 layout  in_out : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %2 = nn.linear_grad_weight %0, %arg1 into %arg4 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:     return %1, %2 : tensor<?x4x8xf32>, tensor<8x8xf32>
// CHECK-NEXT:   }
// CHECK:   func.func @train(%arg0: tensor<?x4xi32>, %arg1: tensor<?x4xi32>, %arg2: tensor<?x2xi32>, %arg3: tensor<?x4xf32>) -> tensor<?x4xf32> {

// RUN: poplar-opt %s --nn-differentiate | FileCheck %s
// RUN: poplar-opt %s --nn-differentiate | FileCheck %s --check-prefix=NONE

// The embedding in front of all that is trained has no backward pass.
// NONE-NOT: @embed.backward
// NONE-NOT: nn.embedding_grad

// What only the gradient of a frozen weight would read, its operand, is no
// residual: the forward pass returns its result, and what the trained one reads.
// CHECK-LABEL: func.func private @block.forward(
// CHECK-SAME:    -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes
// CHECK:         %[[A:.*]] = nn.linear
// CHECK:         %[[B:.*]] = nn.linear %[[A]]
// CHECK:         return %[[B]], %[[A]]
// CHECK-LABEL: func.func private @block.backward(
// CHECK-COUNT-1: nn.linear_grad_weight
// CHECK-NOT:     nn.linear_grad_weight
// CHECK:         return

// CHECK-LABEL: func.func @train(
// CHECK-NOT:     nn.get_gradient @f
// CHECK:         nn.get_gradient @w
// CHECK-NOT:     nn.get_gradient @f
// CHECK:         return

nn.parameter @fe : tensor<8x8xf32> ones frozen
nn.parameter @fw : tensor<8x8xf32> ones frozen
nn.parameter @w : tensor<8x8xf32> ones
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @block(%x: tensor<?x4x8xf32>, %f: tensor<8x8xf32> {nn.parameter}, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %f : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %fe = nn.get_parameter @fe : tensor<8x8xf32>
  %fw = nn.get_parameter @fw : tensor<8x8xf32>
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %x = func.call @embed(%ids, %fe) : (tensor<?x4xi32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %y = func.call @block(%x, %fw, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%y, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

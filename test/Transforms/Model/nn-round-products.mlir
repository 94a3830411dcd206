// RUN: poplar-opt %s --nn-round-products | FileCheck %s

// Layers of sides that are multiples of 16, but not the one that makes the logits.
nn.parameter @w : tensor<32x16xf32> ones
nn.parameter @narrow : tensor<24x32xf32> ones
nn.parameter @back : tensor<16x24xf32> ones
nn.parameter @head : tensor<16x16xf32> ones
// CHECK-LABEL: @block
// CHECK: nn.linear {{.*}} fp8 : (tensor<?x4x16xf32>, tensor<32x16xf32>)
// CHECK: nn.linear %{{[^ ]*}}, %{{[^ ]*}} : (tensor<?x4x32xf32>, tensor<24x32xf32>)
// CHECK: nn.linear %{{[^ ]*}}, %{{[^ ]*}} : (tensor<?x4x24xf32>, tensor<16x24xf32>)
func.func private @block(%x: tensor<?x4x16xf32>, %w: tensor<32x16xf32> {nn.parameter}, %n: tensor<24x32xf32> {nn.parameter}, %b: tensor<16x24xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x16xf32>, tensor<32x16xf32>) -> tensor<?x4x32xf32>
  %1 = nn.linear %0, %n : (tensor<?x4x32xf32>, tensor<24x32xf32>) -> tensor<?x4x24xf32>
  %2 = nn.linear %1, %b : (tensor<?x4x24xf32>, tensor<16x24xf32>) -> tensor<?x4x16xf32>
  return %2 : tensor<?x4x16xf32>
}
// CHECK-LABEL: @head_unit
// CHECK: nn.linear %{{[^ ]*}}, %{{[^ ]*}} : (tensor<?x4x16xf32>, tensor<16x16xf32>)
func.func private @head_unit(%x: tensor<?x4x16xf32>, %w: tensor<16x16xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}
func.func private @loss_unit(%x: tensor<?x4x16xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %loss : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %x: tensor<?x4x16xf32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<32x16xf32>
  %n = nn.get_parameter @narrow : tensor<24x32xf32>
  %b = nn.get_parameter @back : tensor<16x24xf32>
  %h = nn.get_parameter @head : tensor<16x16xf32>
  %0 = call @block(%x, %w, %n, %b) : (tensor<?x4x16xf32>, tensor<32x16xf32>, tensor<24x32xf32>, tensor<16x24xf32>) -> tensor<?x4x16xf32>
  %1 = call @head_unit(%0, %h) : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  %2 = call @loss_unit(%1, %ids) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// RUN: poplar-opt %s --nn-round-products | FileCheck %s

// The product of a layer, and with it that of the gradient of its input, is of
// operands in fp8.
nn.parameter @q.weight : tensor<16x16xf32> normal std 0.02
func.func private @block(%x: tensor<?x4x16xf32>, %w: tensor<16x16xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}
func.func @model(%x: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> {
  %w = nn.get_parameter @q.weight : tensor<16x16xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// The result:
//
// CHECK:   nn.parameter @q.weight : tensor<16x16xf32> normal std 2.000000e-02
// CHECK-NEXT:   func.func private @block(%arg0: tensor<?x4x16xf32>, %arg1: tensor<16x16xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 fp8 : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
// CHECK-NEXT:     return %0 : tensor<?x4x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @model(%arg0: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> {
// CHECK-NEXT:     %0 = nn.get_parameter @q.weight : tensor<16x16xf32>
// CHECK-NEXT:     %1 = call @block(%arg0, %0) : (tensor<?x4x16xf32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
// CHECK-NEXT:     return %1 : tensor<?x4x16xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

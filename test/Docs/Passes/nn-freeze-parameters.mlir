// RUN: poplar-opt %s --nn-freeze-parameters="trained=head.weight" | FileCheck %s

// The matrix is frozen, and each call gets a unit of its own.
nn.parameter @q.weight : tensor<8x8xf32> normal std 0.02
nn.parameter @head.weight : tensor<8x8xf32> normal std 0.02
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @q.weight : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %h = nn.get_parameter @head.weight : tensor<8x8xf32>
  %1 = call @block(%0, %h) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   nn.parameter @q.weight : tensor<8x8xf32>  normal std 2.000000e-02 frozen
// CHECK-NEXT:   nn.parameter @head.weight : tensor<8x8xf32>  normal std 2.000000e-02
// CHECK-NEXT:   func.func private @block(%arg0: tensor<?x4x8xf32>, %arg1: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %0 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func private @block_0(%arg0: tensor<?x4x8xf32>, %arg1: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %0 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @model(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4xi32>, %arg2: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
// CHECK-NEXT:     %0 = nn.get_parameter @q.weight : tensor<8x8xf32>
// CHECK-NEXT:     %1 = call @block(%arg0, %0) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %2 = nn.get_parameter @head.weight : tensor<8x8xf32>
// CHECK-NEXT:     %3 = call @block_0(%1, %2) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %3 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

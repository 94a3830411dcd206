// RUN: poplar-opt %s --nn-add-adapters="rank=2 alpha=4 targets=q" | FileCheck %s

// What there was is frozen. The linear layer adds B A x, scaled by alpha / rank.
nn.parameter @q.weight : tensor<8x8xf32> normal std 0.02
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @q.weight : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   nn.parameter @q.weight : tensor<8x8xf32>  normal std 2.000000e-02 frozen
// CHECK-NEXT:   nn.parameter @q.lora_A.weight : tensor<2x8xf32>  uniform std 0.20412414523193154 decay
// CHECK-NEXT:   nn.parameter @q.lora_B.weight : tensor<8x2xf32>  zeros decay
// CHECK-NEXT:   func.func private @block(%arg0: tensor<?x4x8xf32>, %arg1: tensor<8x8xf32> {nn.parameter}, %arg2: tensor<2x8xf32> {nn.parameter}, %arg3: tensor<8x2xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %1 = nn.linear %arg0, %arg2 : (tensor<?x4x8xf32>, tensor<2x8xf32>) -> tensor<?x4x2xf32>
// CHECK-NEXT:     %2 = nn.scale %1 factor 2.000000e+00 : tensor<?x4x2xf32>
// CHECK-NEXT:     %3 = nn.linear %2, %arg3 : (tensor<?x4x2xf32>, tensor<8x2xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %4 = nn.add %0, %3 : tensor<?x4x8xf32>
// CHECK-NEXT:     return %4 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @model(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4xi32>, %arg2: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
// CHECK-NEXT:     %0 = nn.get_parameter @q.weight : tensor<8x8xf32>
// CHECK-NEXT:     %1 = nn.get_parameter @q.lora_A.weight : tensor<2x8xf32>
// CHECK-NEXT:     %2 = nn.get_parameter @q.lora_B.weight : tensor<8x2xf32>
// CHECK-NEXT:     %3 = call @block(%arg0, %0, %1, %2) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<2x8xf32>, tensor<8x2xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %3 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

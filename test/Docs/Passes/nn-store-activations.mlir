// RUN: poplar-opt %s --nn-store-activations=type=f16 | FileCheck %s

// The unit takes and gives f16, and computes in f32.
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   func.func private @block(%arg0: tensor<?x4x8xf16>, %arg1: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf16> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.cast %arg0 : tensor<?x4x8xf16> to tensor<?x4x8xf32>
// CHECK-NEXT:     %1 = nn.linear %0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     %2 = nn.cast %1 : tensor<?x4x8xf32> to tensor<?x4x8xf16>
// CHECK-NEXT:     return %2 : tensor<?x4x8xf16>
// CHECK-NEXT:   }

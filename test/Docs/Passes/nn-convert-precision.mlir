// RUN: poplar-opt %s --nn-convert-precision=type=bf16 | FileCheck %s

// The working copy of the parameter and the activations become bf16; the master
// stays f32.
nn.parameter @w : tensor<8x8xf32> normal std 0.02
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   nn.parameter @w : tensor<8x8xf32>  normal std 2.000000e-02
// CHECK-NEXT:   func.func private @block(%arg0: tensor<?x4x8xbf16>, %arg1: tensor<8x8xbf16> {nn.parameter}) -> tensor<?x4x8xbf16> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
// CHECK-NEXT:     return %0 : tensor<?x4x8xbf16>
// CHECK-NEXT:   }
// CHECK-NEXT: }

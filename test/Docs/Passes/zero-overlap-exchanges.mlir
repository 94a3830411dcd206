// RUN: poplar-opt %s --zero-overlap-exchanges | FileCheck %s

// The second of two devices that share a linear layer.
func.func private @up(%mine: tensor<?x4x4xf32>, %w: tensor<4x4xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
  %all = zero.gather_tokens %mine bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
  %0 = nn.linear %all, %w : (tensor<?x8x4xf32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
  return %0 : tensor<?x8x4xf32>
}

// The result:
//
// CHECK:   func.func private @up(
// CHECK-NEXT:     %0 = zero.start_exchange gather_tokens %arg0 bounds [0, 4, 8] position 1
// CHECK-NEXT:     %1 = nn.linear %0, %arg1 : (tensor<?x8x4xf32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
// CHECK-NEXT:     %2 = zero.wait_exchange %0 of %arg0
// CHECK-NEXT:     return %1 : tensor<?x8x4xf32>

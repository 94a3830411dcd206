// RUN: poplar-opt %s --zero-delay-waits | FileCheck %s

// The reduction ends after the next unit has computed.
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w] bounds [0, 32, 64]
func.func private @compute() -> tensor<8x8xf32>
func.func @train() {
  %g = call @compute() : () -> tensor<8x8xf32>
  %t = zero.start reduce_scatter @b wire f32 (%g : tensor<8x8xf32>)
  zero.wait %t
  %h = call @compute() : () -> tensor<8x8xf32>
  return
}

// The result:
//
// CHECK:   func.func @train() {
// CHECK-NEXT:     %0 = call @compute() : () -> tensor<8x8xf32>
// CHECK-NEXT:     %1 = zero.start reduce_scatter @b wire f32(%0 : tensor<8x8xf32>)
// CHECK-NEXT:     %2 = call @compute() : () -> tensor<8x8xf32>
// CHECK-NEXT:     zero.wait %1
// CHECK-NEXT:     return

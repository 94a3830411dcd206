// RUN: poplar-opt %s --zero-prefetch | FileCheck %s

// The second gather starts before the first unit computes.
nn.parameter @w0 : tensor<8x8xf32> ones
nn.parameter @w1 : tensor<8x8xf32> ones
zero.bucket @b0 [@w0] bounds [0, 32, 64]
zero.bucket @b1 [@w1] bounds [0, 32, 64]
func.func private @use(tensor<8x8xf32>)
func.func @infer() {
  %t0 = zero.start all_gather @b0 wire f32 transient
  %w0 = zero.wait %t0 : tensor<8x8xf32>
  call @use(%w0) : (tensor<8x8xf32>) -> ()
  %t1 = zero.start all_gather @b1 wire f32 transient
  %w1 = zero.wait %t1 : tensor<8x8xf32>
  call @use(%w1) : (tensor<8x8xf32>) -> ()
  return
}

// The result:
//
// CHECK:   func.func @infer() {
// CHECK-NEXT:     %0 = zero.start all_gather @b0 wire f32 transient
// CHECK-NEXT:     %1 = zero.wait %0 : tensor<8x8xf32>
// CHECK-NEXT:     %2 = zero.start all_gather @b1 wire f32 transient
// CHECK-NEXT:     call @use(%1) : (tensor<8x8xf32>) -> ()
// CHECK-NEXT:     %3 = zero.wait %2 : tensor<8x8xf32>
// CHECK-NEXT:     call @use(%3) : (tensor<8x8xf32>) -> ()

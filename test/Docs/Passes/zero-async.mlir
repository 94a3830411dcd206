// RUN: poplar-opt %s --zero-async | FileCheck %s

nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w] bounds [0, 32, 64]
func.func private @use(tensor<8x8xf32>)
func.func @infer() {
  %w = zero.all_gather @b wire f32 : tensor<8x8xf32>
  call @use(%w) : (tensor<8x8xf32>) -> ()
  return
}

// The result:
//
// CHECK:   func.func @infer() {
// CHECK-NEXT:     %0 = zero.start all_gather @b wire f32 transient
// CHECK-NEXT:     %1 = zero.wait %0 : tensor<8x8xf32>
// CHECK-NEXT:     call @use(%1) : (tensor<8x8xf32>) -> ()
// CHECK-NEXT:     return

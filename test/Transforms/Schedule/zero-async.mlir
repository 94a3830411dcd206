// RUN: poplar-opt %s --zero-async | FileCheck %s

nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @b [@w] bounds [0, 32, 64]

// CHECK-LABEL: func @train
func.func @train() {
  // CHECK: %[[G:.*]] = zero.start all_gather @b wire bf16 transient
  // CHECK-NEXT: %[[W:.*]] = zero.wait %[[G]] : tensor<8x8xbf16>
  // CHECK-NEXT: call @use(%[[W]])
  %w = zero.all_gather @b wire bf16 : tensor<8x8xbf16>
  call @use(%w) : (tensor<8x8xbf16>) -> ()
  %g = zero.gradients @b : tensor<8x8xf32>
  // CHECK: %[[R:.*]] = zero.start reduce_scatter @b wire f32 unscale(%{{.*}} : tensor<8x8xf32>)
  // CHECK-NEXT: zero.wait %[[R]]
  zero.reduce_scatter @b wire f32 unscale (%g : tensor<8x8xf32>)
  // CHECK: %[[A:.*]] = zero.start all_reduce @b wire f32
  // CHECK-NEXT: zero.wait %[[A]]
  zero.all_reduce @b wire f32
  return
}

// A gather into the working copies gives no values. The norm is needed at once.
// CHECK-LABEL: func @update
func.func @update() {
  // CHECK: zero.norm
  zero.norm
  zero.adamw @b
  // CHECK: %[[T:.*]] = zero.start all_gather @b wire f32
  // CHECK-NOT: transient
  // CHECK-NEXT: zero.wait %[[T]]
  zero.all_gather @b wire f32
  return
}
func.func private @use(tensor<8x8xbf16>)

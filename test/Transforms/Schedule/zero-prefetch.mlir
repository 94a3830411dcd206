// RUN: poplar-opt %s --zero-prefetch | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: poplar-opt %s --zero-prefetch=depth=2 | FileCheck %s --check-prefixes=CHECK,TWO
// RUN: poplar-opt %s --zero-prefetch=depth=0 | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: poplar-opt %s --zero-prefetch --remarks-filter=zero-prefetch \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

nn.parameter @w0 : tensor<8x8xf32> normal std 0.02
nn.parameter @w1 : tensor<8x8xf32> normal std 0.02
nn.parameter @w2 : tensor<8x8xf32> normal std 0.02
zero.bucket @b0 [@w0] bounds [0, 32, 64]
zero.bucket @b1 [@w1] bounds [0, 32, 64]
zero.bucket @b2 [@w2] bounds [0, 32, 64]

// Each gather is under way while the unit before its user computes; with a
// depth of two, also while the one before that does. The order stays.

// CHECK-LABEL: func @infer
// CHECK: start all_gather @b0
// TWO: start all_gather @b1
// CHECK: wait
// ONE: start all_gather @b1
// TWO: start all_gather @b2
// CHECK: call @use
// NONE: start all_gather @b1
// CHECK: wait
// ONE: start all_gather @b2
// CHECK: call @use
// NONE: start all_gather @b2
// CHECK: wait
// CHECK: call @use
// REMARK: remark: [Missed] NotPrefetched | Category:zero-prefetch | Function=infer | Bucket=b0, Reason="it is the first of its function"
// REMARK: remark: [Passed] Prefetched | Category:zero-prefetch | Function=infer | Bucket=b1, Reason="it starts once b0 is gathered"
// REMARK: remark: [Passed] Prefetched | Category:zero-prefetch | Function=infer | Bucket=b2, Reason="it starts once b1 is gathered"
func.func @infer() {
  %t0 = zero.start all_gather @b0 wire f32 transient
  %w0 = zero.wait %t0 : tensor<8x8xf32>
  call @use(%w0) : (tensor<8x8xf32>) -> ()
  %t1 = zero.start all_gather @b1 wire f32 transient
  %w1 = zero.wait %t1 : tensor<8x8xf32>
  call @use(%w1) : (tensor<8x8xf32>) -> ()
  %t2 = zero.start all_gather @b2 wire f32 transient
  %w2 = zero.wait %t2 : tensor<8x8xf32>
  call @use(%w2) : (tensor<8x8xf32>) -> ()
  return
}

// Reductions, and gathers into the working copies, stay where they are.
// CHECK-LABEL: func @update
// CHECK: adamw @b0
// CHECK: start all_gather @b0
// CHECK: wait
// CHECK: adamw @b1
// CHECK: start all_gather @b1
func.func @update() {
  zero.norm
  zero.adamw @b0
  %t0 = zero.start all_gather @b0 wire f32
  zero.wait %t0
  zero.adamw @b1
  %t1 = zero.start all_gather @b1 wire f32
  zero.wait %t1
  return
}
func.func private @use(tensor<8x8xf32>)

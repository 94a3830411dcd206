// RUN: poplar-opt %s --zero-delay-waits | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: poplar-opt %s --zero-delay-waits=depth=0 | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: poplar-opt %s --zero-delay-waits --remarks-filter=zero-delay-waits \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

nn.parameter @w0 : tensor<8x8xf32> normal std 0.02
nn.parameter @w1 : tensor<8x8xf32> normal std 0.02
zero.bucket @b0 [@w0] bounds [0, 32, 64]
zero.bucket @b1 [@w1] bounds [0, 32, 64]

// Stages 2 and 3: the gradients of the first unit stay in memory while it is
// reduced; with a depth of one, until the next reduction starts.

// CHECK-LABEL: func @train
// CHECK: %[[R1:.*]] = zero.start reduce_scatter @b1
// NONE-NEXT: zero.wait %[[R1]]
// CHECK: zero.gradients @b0
// CHECK: call @backward
// ONE: zero.wait %[[R1]]
// CHECK-NEXT: %[[R0:.*]] = zero.start reduce_scatter @b0
// CHECK-NEXT: zero.wait %[[R0]]
// CHECK-NEXT: return
// REMARK: remark: [Passed] WaitDelayed | Category:zero-delay-waits | Function=train | Bucket=b1, Reason="b0 is reduced next, and 1 of such reductions may be under way"
// REMARK: remark: [Passed] WaitDelayed | Category:zero-delay-waits | Function=train | Bucket=b0, Reason="the function ends"
func.func @train() {
  %g1 = zero.gradients @b1 : tensor<8x8xf32>
  call @backward(%g1) : (tensor<8x8xf32>) -> ()
  %t1 = zero.start reduce_scatter @b1 wire f32 (%g1 : tensor<8x8xf32>)
  zero.wait %t1
  %g0 = zero.gradients @b0 : tensor<8x8xf32>
  call @backward(%g0) : (tensor<8x8xf32>) -> ()
  %t0 = zero.start reduce_scatter @b0 wire f32 (%g0 : tensor<8x8xf32>)
  zero.wait %t0
  return
}

// Stages 0 and 1: nothing is held up by waiting at the end.

// CHECK-LABEL: func @train_last
// CHECK: %[[A1:.*]] = zero.start all_reduce @b1
// CHECK-NEXT: %[[A0:.*]] = zero.start all_reduce @b0
// CHECK-NEXT: zero.wait %[[A1]]
// CHECK-NEXT: zero.wait %[[A0]]
// CHECK-NEXT: return
// REMARK: remark: [Passed] WaitDelayed | Category:zero-delay-waits | Function=train_last | Bucket=b1, Reason="func.return reads what it changes"
func.func @train_last() {
  %t1 = zero.start all_reduce @b1 wire f32
  zero.wait %t1
  %t0 = zero.start all_reduce @b0 wire f32
  zero.wait %t0
  return
}

// What a unit is about to read is not delayed.

// CHECK-LABEL: func @infer
// CHECK: zero.wait
// CHECK-NEXT: call @backward
func.func @infer() {
  %t = zero.start all_gather @b0 wire f32 transient
  %w = zero.wait %t : tensor<8x8xf32>
  call @backward(%w) : (tensor<8x8xf32>) -> ()
  return
}
func.func private @backward(tensor<8x8xf32>)

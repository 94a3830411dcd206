// RUN: poplar-opt %s --zero-verify | FileCheck %s

// Two programs that differ in what they compute, but not in what they send.

// CHECK: module @a100.program
module @a100.program {
  zero.program "a100" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @train() {
    return
  }
  func.func @train_last() {
    call @work() : () -> ()
    zero.reduce_scatter @b wire f32
    return
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    %t = zero.start all_gather @b wire f32
    zero.wait %t
    return
  }
  func.func private @work()
}
// CHECK: module @t4.program
module @t4.program {
  zero.program "t4" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @train_last() {
    %t = zero.start reduce_scatter @b wire f32
    zero.wait %t
    return
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    zero.all_gather @b wire f32
    return
  }
}

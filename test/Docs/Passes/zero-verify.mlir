// RUN: not poplar-opt %s --zero-verify 2>&1 | FileCheck %s

// The second program would wait for a gather that the first never issues.
module @a100.program {
  zero.program "a100" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @infer() {
    return
  }
}
module @t4.program {
  zero.program "t4" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @infer() {
    %w = zero.all_gather @b wire f32 : tensor<8x8xf32>
    return
  }
}

// The result:
//
// CHECK: error: @t4.program issues all_gather of @b as f32 as collective 0 of @infer, but @a100.program issues nothing: every rank has to issue the same ones
// CHECK:     %w = zero.all_gather @b wire f32 : tensor<8x8xf32>
// CHECK: note: where @a100.program does otherwise
// CHECK:   func.func @infer() {

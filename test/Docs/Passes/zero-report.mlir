// RUN: poplar-opt %s --zero-report -o /dev/null | FileCheck %s

// Each rank receives 2 MiB of parameters that the other owns, and 2 MiB that the
// other adds to the gradients of its own half.
module {
  module @a100.program {
    zero.program "a100" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
    zero.plan stage 3 global_batch 8 policy "exact" {
      zero.rank @a100 node "n" micro_batch 4 steps 1 last 4
      zero.rank @a100 node "n" micro_batch 4 steps 1 last 4
    }
    nn.parameter @w : tensor<1024x1024xf32> ones
    zero.bucket @b [@w] bounds [0, 524288, 1048576]
    func.func @train() {
      %w = zero.all_gather @b wire f32 : tensor<1024x1024xf32>
      zero.reduce_scatter @b wire f32 (%w : tensor<1024x1024xf32>)
      return
    }
  }
}

// The result:
//
// CHECK: stage 3, an iteration:
// CHECK-NEXT: rank 0    a100                0 x 4 + 4      2 collectives,       4.00 MiB received
// CHECK-NEXT: rank 1    a100                0 x 4 + 4      2 collectives,       4.00 MiB received

// RUN: not poplar-opt %s --zero-verify-stages 2>&1 | FileCheck %s

// Stage 0 wants the gradient of a micro-batch before it has sent the next one,
// which stage 1 takes first: both wait for ever.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  }
  func.func @forward(%x: tensor<?x4xf32>) {
    zero.send activation %x to 1 : tensor<?x4xf32>
    return
  }
  func.func @backward() {
    %d = zero.receive gradient from 1 : tensor<?x4xf32>
    return
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  }
  func.func @forward() {
    %x = zero.receive activation from 0 : tensor<?x4xf32>
    return
  }
  func.func @backward(%d: tensor<?x4xf32>) {
    zero.send gradient %d to 0 : tensor<?x4xf32>
    return
  }
  func.func @backward_last(%d: tensor<?x4xf32>) {
    zero.send gradient %d to 0 : tensor<?x4xf32>
    return
  }
}

// The result:
//
// CHECK: error: rank of group 0 waits forever in the backward pass of micro-batch 0 for stage 1, which waits with the forward pass of micro-batch 1
// CHECK:     zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
// CHECK: note: the rank of group 1
// CHECK:     zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]

// RUN: poplar-opt %s --zero-verify-stages --split-input-file | FileCheck %s
//
// Two stages that can work together; what both hold is reduced in @update.

// CHECK: module @t.stage0.program
// CHECK: module @t.stage1.program
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<32xf32> zeros
  zero.bucket @b [@e] bounds [0, 16, 32] groups [0, 1] stage 0
  func.func @forward(%x: tensor<?x4xf32>) {
    zero.send activation %x to 1 : tensor<?x4xf32>
    return
  }
  func.func @backward() {
    %d = zero.receive gradient from 1 : tensor<?x4xf32>
    return
  }
  func.func @update() {
    zero.all_reduce @b wire f32
    zero.norm
    zero.adamw @b
    return
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<32xf32> zeros
  zero.bucket @b [@e] bounds [0, 16, 32] groups [0, 1] stage 0
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
  func.func @update() {
    zero.all_reduce @b wire f32
    zero.norm
    zero.adamw @b
    return
  }
}

// -----

// Groups of two chunks: what the last one sends goes to the next chunk of the
// first.

// CHECK: module @t.stage0.program
// CHECK: module @t.stage1.program
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    zero.send activation %v to 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk0() attributes {zero.turn = 0 : i64} {
    %x = zero.receive gradient from 1 : tensor<?x4xf32>
    return
  }
  func.func @forward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    %x = zero.receive activation from 1 : tensor<?x4xf32>
    zero.send activation %v to 1 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    %x = zero.receive gradient from 1 chunk 1 : tensor<?x4xf32>
    zero.send gradient %v to 1 : tensor<?x4xf32>
    return
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    %x = zero.receive activation from 0 : tensor<?x4xf32>
    zero.send activation %v to 0 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    %x = zero.receive gradient from 0 chunk 1 : tensor<?x4xf32>
    zero.send gradient %v to 0 : tensor<?x4xf32>
    return
  }
  func.func @forward.chunk1() attributes {zero.turn = 1 : i64} {
    %x = zero.receive activation from 0 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    zero.send gradient %v to 0 chunk 1 : tensor<?x4xf32>
    return
  }
}

// -----

// Turns of one's own, which can be taken: chunk by chunk.

// CHECK: module @t.stage0.program
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 1, -1, -1, 2, 2, -2, -2] chunks [0, 1, 1, 0, 0, 1, 1, 0]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 1, -1, -1, 2, 2, -2, -2] chunks [0, 1, 1, 0, 0, 1, 1, 0]
  }
  func.func @forward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    zero.send activation %v to 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk0() attributes {zero.turn = 0 : i64} {
    %x = zero.receive gradient from 1 : tensor<?x4xf32>
    return
  }
  func.func @forward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    %x = zero.receive activation from 1 : tensor<?x4xf32>
    zero.send activation %v to 1 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    %x = zero.receive gradient from 1 chunk 1 : tensor<?x4xf32>
    zero.send gradient %v to 1 : tensor<?x4xf32>
    return
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 1, -1, -1, 2, 2, -2, -2] chunks [0, 1, 1, 0, 0, 1, 1, 0]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 1, -1, -1, 2, 2, -2, -2] chunks [0, 1, 1, 0, 0, 1, 1, 0]
  }
  func.func @forward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    %x = zero.receive activation from 0 : tensor<?x4xf32>
    zero.send activation %v to 0 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk0(%v: tensor<?x4xf32>) attributes {zero.turn = 0 : i64} {
    %x = zero.receive gradient from 0 chunk 1 : tensor<?x4xf32>
    zero.send gradient %v to 0 : tensor<?x4xf32>
    return
  }
  func.func @forward.chunk1() attributes {zero.turn = 1 : i64} {
    %x = zero.receive activation from 0 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    zero.send gradient %v to 0 chunk 1 : tensor<?x4xf32>
    return
  }
}

// RUN: poplar-opt %s --zero-verify --split-input-file --verify-diagnostics

// Ranks that share units exchange the same. Those of another pipeline may
// recompute more, and so exchange more.

module @a0 {
  zero.program "a" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 0
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 0 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}
module @a1 {
  zero.program "a" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 1
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}
module @b0 {
  zero.program "b" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 0
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 0 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    %1 = zero.gather_tokens %x bounds [0, 4, 8] position 0 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}
module @b1 {
  zero.program "b" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 1
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    %1 = zero.gather_tokens %x bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}

// -----

module @a0 {
  zero.program "a" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 0
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 0 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}
module @b1 {
  zero.program "b" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 4 parts [1, 1] position 1
  zero.plan stage 0 global_batch 2 policy "stages" {
    zero.group units [0, 4] stage 0 tensor 2 parts [1, 1]
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
    zero.rank @b node "n" micro_batch 1 steps 1 last 1
  }
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 16, 32, 48, 64]
  func.func @train_last() {
    zero.all_reduce @b wire f32
    return
  }
  func.func @block(%x: tensor<?x4x4xf32>) -> tensor<?x8x4xf32> {
    %0 = zero.gather_tokens %x bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    // expected-error @below {{@b1 has zero.gather_tokens with bounds [0, 4, 8] as exchange 1 of @block, but @a0 has nothing: ranks that share units exchange the same}}
    %1 = zero.gather_tokens %x bounds [0, 4, 8] position 1 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    return
  }
}

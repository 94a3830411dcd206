// RUN: poplar-opt %s --zero-verify-stages --split-input-file --verify-diagnostics
//
// Groups of several chunks.

// Sent to the chunk that it comes from.
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
    // expected-error @below {{of group 1, chunk 0, names group 0, chunk 0: activations go from a group to the one after it, and from the last to the next chunk of the first}}
    zero.send activation %v to 0 : tensor<?x4xf32>
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

// Sent, but the other chunk does not receive it.
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
  // expected-note @below {{where it would be received}}
  func.func @forward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
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
    // expected-error @below {{@t.stage1 sends in @forward.chunk0 what @t.stage0 does not receive}}
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

// Received, but the other chunk does not send it.
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
  // expected-note @below {{where it would be sent}}
  func.func @forward.chunk1() attributes {zero.turn = 1 : i64} {
    %x = zero.receive activation from 1 : tensor<?x4xf32>
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
    // expected-error @below {{@t.stage1 receives in @forward.chunk1 what @t.stage0 does not send}}
    %x = zero.receive activation from 0 chunk 1 : tensor<?x4xf32>
    return
  }
  func.func @backward.chunk1(%v: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
    zero.send gradient %v to 0 chunk 1 : tensor<?x4xf32>
    return
  }
}

// -----

// The first group wants its second chunk to come first, which waits for what it
// has not sent.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 1 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    // expected-error @below {{rank of group 0 waits forever in the forward pass of chunk 1 of micro-batch 0 for stage 1, which waits with the forward pass of chunk 0 of micro-batch 0}}
    zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [1, 0, 1, 0]
    // expected-note @below {{the rank of group 1}}
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
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
  zero.plan stage 0 global_batch 1 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [1, 0, 1, 0]
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
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

module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 1 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    // expected-note @below {{the rank of group 0}}
    // expected-error @below {{rank of group 0 sends and receives activations of chunk 1 of other micro-batches, or in another order, than stage 0 computes them forward}}
    zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, -1] chunks [0, 0]
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, -1] chunks [0, 0]
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
  zero.plan stage 0 global_batch 1 policy "stages" schedule "custom" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, -1] chunks [0, 0]
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, -1] chunks [0, 0]
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

// RUN: poplar-opt %s --zero-verify-stages --split-input-file --verify-diagnostics

// Stage 0 wants the gradient of a micro-batch before it has sent the next one,
// which stage 1 takes first: both wait for ever.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    // expected-error @below {{rank of group 0 waits forever in the backward pass of micro-batch 0 for stage 1, which waits with the forward pass of micro-batch 1}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    // expected-note @below {{the rank of group 1}}
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

// -----

// Activations come in another order than they are wanted.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    // expected-note @below {{the rank of group 0}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    // expected-error @below {{rank of group 1 sends and receives activations of other micro-batches, or in another order, than stage 0 computes them forward}}
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [2, 1, -2, -1]
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
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [2, 1, -2, -1]
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

// -----

module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    // expected-error @below {{has turns of 1 micro-batches, but 2 steps}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1]
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
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1]
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

// -----

// Sent, but not received.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward(%x: tensor<?x4xf32>) {
    // expected-error @below {{@t.stage0 sends in @forward what @t.stage1 does not receive}}
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
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  // expected-note @below {{where it would be received}}
  func.func @forward() {
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

// -----

// Received, but not sent.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward(%x: tensor<?x4xf32>) {
    zero.send activation %x to 1 : tensor<?x4xf32>
    return
  }
  func.func @backward() {
    // expected-error @below {{@t.stage0 receives in @backward what @t.stage1 does not send}}
    %d = zero.receive gradient from 1 : tensor<?x4xf32>
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
  func.func @forward() {
    %x = zero.receive activation from 0 : tensor<?x4xf32>
    return
  }
  // expected-note @below {{where it would be sent}}
  func.func @backward(%d: tensor<?x4xf32>) {
    return
  }
  func.func @backward_last(%d: tensor<?x4xf32>) {
    zero.send gradient %d to 0 : tensor<?x4xf32>
    return
  }
}

// -----

// Of another type.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward(%x: tensor<?x4xf32>) {
    // expected-error @below {{@t.stage0 sends in @forward tensor<?x4xf32>, but what is received is tensor<?x4xbf16>: device types of neighbouring groups need the same precision}}
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
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward() {
    // expected-note @below {{received here}}
    %x = zero.receive activation from 0 : tensor<?x4xbf16>
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

// -----

module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @forward(%x: tensor<?x4xf32>) {
    // expected-error @below {{of group 0 names group 2: activations go from a group to the one after it}}
    zero.send activation %x to 2 : tensor<?x4xf32>
    return
  }
  func.func @backward() {
    %d = zero.receive gradient from 1 : tensor<?x4xf32>
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

// -----

// A collective of several groups in a turn: the other group comes to it only
// after a message of this one.
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
  // expected-note @below {{the turn}}
  func.func @backward_last(%d: tensor<?x4xf32>) {
    // expected-error @below {{@t.stage1 issues a collective of several groups in a turn: others may wait for this one's messages before they come to it; it belongs in @update}}
    zero.all_reduce @b wire f32
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

// A collective of a bucket that is another group's.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<32xf32> zeros
  zero.bucket @b [@e] bounds [0, 16, 32] groups [0] stage 0
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
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<32xf32> zeros
  // expected-note @below {{the bucket}}
  zero.bucket @b [@e] bounds [0, 16, 32] groups [0] stage 0
  func.func @forward() {
    %x = zero.receive activation from 0 : tensor<?x4xf32>
    return
  }
  func.func @backward(%d: tensor<?x4xf32>) {
    zero.send gradient %d to 0 : tensor<?x4xf32>
    return
  }
  func.func @backward_last(%d: tensor<?x4xf32>) {
    // expected-error @below {{@t.stage1 issues a collective of b, which its group does not hold}}
    zero.all_reduce @b wire f32
    zero.send gradient %d to 0 : tensor<?x4xf32>
    return
  }
}

// -----

// Both reduce, but one in another way.
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
    // expected-note @below {{where the other group does otherwise}}
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
    // expected-error @below {{@t.stage1 does otherwise than @t.stage0 in collective 0 of those that both issue in @update}}
    zero.reduce_scatter @b wire f32
    zero.norm
    zero.adamw @b
    return
  }
}

// -----

// Nobody computes the units of a group.
module {
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    // expected-error @below {{has no program that computes its units}}
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
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
}

// -----

// Each of two pipelines could take its turns by itself, but their ranks meet in
// every backward pass.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 4 group 0 of 2
  zero.plan stage 2 global_batch 4 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 2
    zero.group units [2, 4] stage 0
    // expected-note @below {{the first rank of the group}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    // expected-error @below {{rank takes its turns in another order than the first one of its group; in stage 2 of ZeRO, pipelines meet in their turns}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 4 group 1 of 2
  zero.plan stage 2 global_batch 4 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 2
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
  }
}

// -----

// Two ranks of each pipeline share the units of stage 0: the second pipeline,
// of ranks 2, 3 and 5, waits for ever.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 6 group 0 of 2
  zero.plan stage 0 global_batch 4 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0 tensor 2
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    // expected-error @below {{rank of group 0 waits forever in the backward pass of micro-batch 0 for stage 1, which waits with the forward pass of micro-batch 1}}
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    // expected-note @below {{the rank of group 1}}
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  }
}
module @t.stage1.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 6 group 1 of 2
  zero.plan stage 0 global_batch 4 policy "stages" schedule "custom" {
    zero.group units [0, 2] stage 0 tensor 2
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  }
}

// -----

module @t.stage0.program {
  // expected-error @below {{is of a plan of 3 groups, but its plan has 2}}
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 3
  // expected-note @below {{the plan}}
  zero.plan stage 0 global_batch 1 policy "stages" schedule "gpipe" {
    zero.group units [0, 3] stage 0
    zero.group units [3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1
  }
}

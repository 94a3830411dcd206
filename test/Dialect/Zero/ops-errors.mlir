// RUN: poplar-opt %s -split-input-file -verify-diagnostics

// The plan.

// expected-error @below {{has no ranks}}
"zero.plan"() <{stage = 0 : i64, global_batch = 1 : i64, policy = "exact"}> ({
^bb0:
}) : () -> ()

// -----

// expected-error @below {{holds an op other than zero.rank}}
zero.plan stage 0 global_batch 1 policy "exact" {
  zero.rank @a node "n" micro_batch 1 steps 1 last 1
  zero.norm
}

// -----

// expected-error @below {{gives its ranks 14 samples in all, not the global batch of 15}}
zero.plan stage 0 global_batch 15 policy "exact" {
  zero.rank @a node "n" micro_batch 4 steps 2 last 4
  zero.rank @b node "n" micro_batch 3 steps 2 last 3
}

// -----

zero.plan stage 2 global_batch 6 policy "exact" {
  // expected-note @below {{the other rank}}
  zero.rank @a node "n" micro_batch 2 steps 2 last 2
  // expected-error @below {{has 1 micro-steps, but another rank has 2: in stage 2 ranks meet in every micro-step}}
  zero.rank @b node "n" micro_batch 2 steps 1 last 2
}

// -----

// expected-error @below {{attribute 'stage' failed to satisfy constraint}}
zero.plan stage 4 global_batch 1 policy "exact" {
  zero.rank @a node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{attribute 'global_batch' failed to satisfy constraint}}
zero.plan stage 0 global_batch 0 policy "exact" {
  zero.rank @a node "n" micro_batch 0 steps 1 last 0
}

// -----

// expected-error @below {{expects parent op 'zero.plan'}}
zero.rank @a node "n" micro_batch 1 steps 1 last 1

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{takes more than 2^31 samples}}
  zero.rank @a node "n" micro_batch 4611686018427387904 steps 5 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{takes more than 2^31 samples}}
  zero.rank @a node "n" micro_batch 4611686018427387904 steps 1 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{attribute 'micro_batch' failed to satisfy constraint}}
  zero.rank @a node "n" micro_batch -1 steps 1 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{attribute 'steps' failed to satisfy constraint}}
  zero.rank @a node "n" micro_batch 1 steps 0 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{attribute 'threads' failed to satisfy constraint}}
  zero.rank @a node "n" micro_batch 1 steps 1 last 1 threads 0
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{has -5.000000e-01 as its share of the state, expected a finite number, not negative}}
  zero.rank @a node "n" micro_batch 1 steps 1 last 1 state -0.5
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{as its share of the state, expected a finite number, not negative}}
  zero.rank @a node "n" micro_batch 1 steps 1 last 1 state 0x7FF8000000000000
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{as its share of the state, expected a finite number, not negative}}
  zero.rank @a node "n" micro_batch 1 steps 1 last 1 state 0x7FF0000000000000
}

// -----

// Shards cover a bucket exactly once: the 64 elements of @w and @b, which
// begins at 32.

// expected-error @below {{has no parameters}}
zero.bucket @bucket [] bounds [0, 0]

// -----

nn.parameter @w : tensor<5x3xf32> ones
// expected-error @below {{names @v, which is not an nn.parameter}}
zero.bucket @bucket [@w, @v]

// -----

nn.parameter @w : tensor<5x3xf32> ones
// expected-error @below {{names @w twice}}
zero.bucket @bucket [@w, @w]

// -----

nn.parameter @w : tensor<5x3xf32> ones
// expected-error @below {{has no bounds, expected one more than ranks}}
zero.bucket @bucket [@w] bounds [0]

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
// expected-error @below {{has a shard of rank 0 that begins at 16, not at 0}}
zero.bucket @bucket [@w, @b] bounds [16, 32, 64]

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
// expected-error @below {{has a shard of rank 0 that begins at -16, not at 0}}
zero.bucket @bucket [@w, @b] bounds [-16, 32, 64]

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
// expected-error @below {{has shards of ranks 1 and 2 that overlap: bounds fall from 48 to 32}}
zero.bucket @bucket [@w, @b] bounds [0, 48, 32, 64]

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
// expected-error @below {{has shards that end at 24, but the bucket has 64 elements}}
zero.bucket @bucket [@w, @b] bounds [0, 12, 24]

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
// expected-error @below {{has shards that end at 80, but the bucket has 64 elements}}
zero.bucket @bucket [@w, @b] bounds [0, 80]

// -----

// Names and values of buckets.

nn.parameter @w : tensor<5x3xf32> ones
func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  zero.all_gather @w wire f32
  return
}

// -----

func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  zero.reduce_scatter @w wire f32
  return
}

// -----

func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  zero.all_reduce @w wire f32
  return
}

// -----

func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  zero.adamw @w
  return
}

// -----

func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  %0 = zero.gradients @w : tensor<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @below {{names @w, which is not a zero.bucket}}
  %t = zero.start all_reduce @w wire f32
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
zero.bucket @bucket [@w, @b]
func.func @f() {
  // expected-error @below {{has 1 values, but @bucket has 2 parameters}}
  %0 = zero.all_gather @bucket wire f32 : tensor<5x3xf32>
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{has a value of type 'tensor<3x5xf32>' for @w of 'tensor<5x3xf32>'}}
  %0 = zero.all_gather @bucket wire f32 : tensor<3x5xf32>
  return
}

// -----

// Parameters are gathered as one type.
nn.parameter @w : tensor<5x3xf32> ones
nn.parameter @b : tensor<9xf32> zeros
zero.bucket @bucket [@w, @b]
func.func @f() {
  // expected-error @below {{has a value of type 'tensor<9xf32>' beside one of type 'tensor<5x3xbf16>': a bucket is of one element type}}
  %0, %1 = zero.all_gather @bucket wire f32 : tensor<5x3xbf16>, tensor<9xf32>
  return
}

// -----

// Gradients are f32.
nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f(%g: tensor<5x3xbf16>) {
  // expected-error @below {{has a value of type 'tensor<5x3xbf16>' for @w of 'tensor<5x3xf32>'}}
  zero.reduce_scatter @bucket wire bf16 (%g : tensor<5x3xbf16>)
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{has a value of type 'tensor<5x3xbf16>' for @w of 'tensor<5x3xf32>'}}
  %0 = zero.gradients @bucket : tensor<5x3xbf16>
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f(%g: tensor<15xf32>) {
  // expected-error @below {{has a value of type 'tensor<15xf32>' for @w of 'tensor<5x3xf32>'}}
  %t = zero.start reduce_scatter @bucket wire f32 (%g : tensor<15xf32>)
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{attribute 'wire' failed to satisfy constraint}}
  zero.all_reduce @bucket wire f64
  return
}

// -----

// Starting and waiting.

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{cannot start a norm: zero.norm is synchronous}}
  %t = zero.start norm @bucket wire f32
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f(%g: tensor<5x3xf32>) {
  // expected-error @below {{takes gradients, but only a reduce_scatter does}}
  %t = zero.start all_reduce @bucket wire f32 (%g : tensor<5x3xf32>)
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{has no gradients to unscale}}
  %t = zero.start all_gather @bucket wire f32 unscale
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-error @below {{is transient, but only an all_gather can be}}
  %t = zero.start all_reduce @bucket wire f32 transient
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @never() {
  // expected-error @below {{needs exactly one zero.wait}}
  %t = zero.start all_reduce @bucket wire f32
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @twice() {
  // expected-error @below {{needs exactly one zero.wait}}
  %t = zero.start all_reduce @bucket wire f32
  zero.wait %t
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func private @g(!zero.token)
func.func @elsewhere() {
  // expected-error @below {{needs exactly one zero.wait}}
  %t = zero.start all_reduce @bucket wire f32
  call @g(%t) : (!zero.token) -> ()
  return
}

// -----

func.func @f(%t: !zero.token) {
  // expected-error @below {{waits for a token that no zero.start made}}
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f(%condition: i1) {
  // expected-note @below {{started here}}
  %t = zero.start all_reduce @bucket wire f32
  scf.if %condition {
    // expected-error @below {{must be in the block of its zero.start}}
    zero.wait %t
  }
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-note @below {{started here}}
  %t = zero.start all_gather @bucket wire f32 transient
  // expected-error @below {{must return the values of a transient all_gather}}
  zero.wait %t
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  // expected-note @below {{started here}}
  %t = zero.start all_gather @bucket wire f32
  // expected-error @below {{returns values, but its collective gathers none}}
  %0 = zero.wait %t : tensor<5x3xf32>
  return
}

// -----

nn.parameter @w : tensor<5x3xf32> ones
zero.bucket @bucket [@w]
func.func @f() {
  %t = zero.start all_gather @bucket wire f32 transient
  // expected-error @below {{has a value of type 'tensor<15xf32>' for @w of 'tensor<5x3xf32>'}}
  %0 = zero.wait %t : tensor<15xf32>
  return
}

// -----

// expected-error @below {{has groups, but its schedule is '', expected gpipe, 1f1b, interleaved or custom}}
zero.plan stage 0 global_batch 2 policy "p" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

// expected-error @below {{has a schedule, but no groups to follow it}}
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-error @below {{is the only one, and its ranks share no units: a plan of one group has no zero.group}}
  zero.group units [0, 2] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

// A unit that two groups own.
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-note @below {{the other group}}
  zero.group units [0, 2] stage 0
  // expected-error @below {{owns unit 1, which another group owns}}
  zero.group units [1, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-note @below {{the group before}}
  zero.group units [0, 2] stage 0
  // expected-error @below {{leaves unit 2 to no group}}
  zero.group units [3, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-error @below {{owns units [2, 2], expected the first and the end of a range}}
  zero.group units [2, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

// expected-error @below {{is of stage 0, but the highest of its groups is 1}}
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-error @below {{is of group 2, but there are 2}}
  zero.rank @t node "n" group 2 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  // expected-note @below {{the first rank}}
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-error @below {{has other micro-batches than the first rank of its pipeline}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 3 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-note @below {{the first group}}
  zero.group units [0, 2] stage 0
  // expected-error @below {{has ranks for 2 pipelines, but the first group for 1: a pipeline goes through all groups}}
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-error @below {{has turns of its own, which only ranks of a custom schedule have}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1]
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "custom" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1]
  // expected-error @below {{has no turns, which ranks of a custom schedule have}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "custom" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  // expected-error @below {{has turn 0: i + 1 is the forward pass of micro-batch i, -i - 1 its backward pass}}
  zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [0, -1]
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1]
}

// -----

zero.plan stage 0 global_batch 2 policy "p" {
  // expected-error @below {{is of a group, but the plan has none}}
  zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, -1]
}

// -----

// Groups of several chunks.
zero.plan stage 0 global_batch 2 policy "p" schedule "interleaved" {
  // expected-note @below {{the first group}}
  zero.group units [0, 1, 2, 3] stage 0
  // expected-error @below {{owns 1 ranges of units, but the first group owns 2: micro-batches go through all groups as often}}
  zero.group units [1, 2] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-error @below {{owns 2 ranges of units, but in schedule '1f1b' groups have one: give each one, or take interleaved or custom}}
  zero.group units [0, 1, 2, 3] stage 0
  zero.group units [1, 2, 3, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "interleaved" {
  // expected-error @below {{leaves unit 2 to no group}}
  zero.group units [0, 1, 3, 4] stage 0
  // expected-note @below {{the group before}}
  zero.group units [1, 2, 4, 5] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "interleaved" {
  // expected-note @below {{the other group}}
  zero.group units [0, 1, 2, 4] stage 0
  // expected-error @below {{owns unit 3, which another group owns}}
  zero.group units [1, 2, 3, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "interleaved" {
  // expected-error @below {{owns units [0, 1, 2], expected the first and the end of a range, or of several ranges one after the other}}
  zero.group units [0, 1, 2] stage 0
  zero.group units [1, 2, 3] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "interleaved" {
  // expected-error @below {{owns units [2, 3, 0, 1], expected the first and the end of a range, or of several ranges one after the other}}
  zero.group units [2, 3, 0, 1] stage 0
  zero.group units [3, 4, 1, 2] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "p" schedule "custom" {
  zero.group units [0, 1, 2, 3] stage 0
  zero.group units [1, 2, 3, 4] stage 0
  // expected-error @below {{does not say through which of the 2 chunks its turns go: add `chunks`, one for each}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1]
  zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1]
}

// -----

zero.plan stage 0 global_batch 1 policy "p" schedule "custom" {
  zero.group units [0, 1, 2, 3] stage 0
  zero.group units [1, 2, 3, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
  // expected-error @below {{has chunks for 3 turns, but 4 turns}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1]
}

// -----

// Devices that share units.
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-error @below {{shares units among [0] devices, expected 1 or more, of all pipelines or of each}}
  zero.group units [0, 2] stage 0 tensor 0
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  // expected-error @below {{shares units among [2, -1] devices, expected 1 or more, of all pipelines or of each}}
  zero.group units [2, 4] stage 0 tensor [2, -1]
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-error @below {{shares units among [] devices, expected 1 or more, of all pipelines or of each}}
  zero.group units [0, 2] stage 0 tensor []
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  // expected-error @below {{has 3 ranks, which is not a multiple of the 2 that share units}}
  zero.group units [2, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 4 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  // expected-error @below {{has 4 ranks, but its pipelines take 3}}
  zero.group units [2, 4] stage 0 tensor [1, 2]
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

// As many ranks, but not as many pipelines.
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-note @below {{the first group}}
  zero.group units [0, 2] stage 0 tensor 2
  // expected-error @below {{has ranks for 2 pipelines, but the first group for 1: a pipeline goes through all groups}}
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  // expected-note @below {{the first group}}
  zero.group units [0, 2] stage 0
  // expected-error @below {{has ranks for 0 pipelines, but the first group for 1}}
  zero.group units [2, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-note @below {{the rank it shares units with}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  // expected-error @below {{shares units with a rank on node 'n', but is on node 'm': units are shared inside a node}}
  zero.rank @t node "m" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" {
  // expected-error @below {{is the only one, and its ranks share no units: a plan of one group has no zero.group}}
  zero.group units [0, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

// expected-error @below {{has a schedule, but no pipeline to follow it: there is one group}}
zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" {
  // expected-error @below {{has 3 parts for units that [2] devices share}}
  zero.group units [0, 4] stage 0 tensor 2 parts [1, 2, 3]
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" {
  // expected-error @below {{has a part 0, expected a number from 1 to 1000000}}
  zero.group units [0, 4] stage 0 tensor 2 parts [1, 0]
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
}

// -----

nn.parameter @w : tensor<4xf32> ones
// expected-error @below {{has positions [0, 1], expected one for each of its groups}}
zero.bucket @b [@w] groups [0] positions [0, 1]

// -----

func.func @tokens(%x: tensor<?x3x4xf32>) {
  // expected-error @below {{has bounds [0, 3, 3], expected ascending bounds from 0, one more than ranks}}
  %0 = zero.gather_tokens %x bounds [0, 3, 3] position 0 : tensor<?x3x4xf32> -> tensor<?x3x4xf32>
  return
}

// -----

func.func @tokens(%x: tensor<?x3x4xf32>) {
  // expected-error @below {{is at position 2 of 2 ranks}}
  %0 = zero.gather_tokens %x bounds [0, 3, 8] position 2 : tensor<?x3x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @tokens(%x: tensor<?x8x4xf32>) {
  // expected-error @below {{which the bounds [0, 3, 8] do not fit}}
  %0 = zero.scatter_tokens %x bounds [0, 3, 8] position 0 : tensor<?x8x4xf32> -> tensor<?x5x4xf32>
  return
}

// -----

func.func @exchange(%x: tensor<?x8x4xf32>) {
  // expected-error @below {{has 1 results for 2 ranks}}
  %0 = zero.exchange collect %x bounds [0, 3, 8] : tensor<?x8x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @loss(%logits: tensor<?x8x4xf32>, %targets: tensor<?x7xi32>) {
  // expected-error @below {{for logits of type 'tensor<?x8x4xf32>', expected one for each token}}
  %loss, %lse = zero.cross_entropy %logits, %targets first_column 4 bounds [0, 3, 8] : (tensor<?x8x4xf32>, tensor<?x7xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
  return
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0 tensor 2
  // expected-note @below {{the first rank}}
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  // expected-error @below {{has other micro-batches than the first rank of its pipeline}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 2
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0 tensor 2
  zero.group units [2, 4] stage 0
  // expected-note @below {{the first rank}}
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-error @below {{has other micro-batches than the first rank of its pipeline}}
  zero.rank @t node "n" micro_batch 1 steps 3 last 0
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  // expected-note @below {{the rank it shares units with}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 recompute "keep"
  // expected-error @below {{shares units with a rank that recomputes otherwise: they share the same passes}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

zero.plan stage 0 global_batch 2 policy "p" schedule "custom" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0 tensor 2
  zero.rank @t node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  // expected-note @below {{the rank it shares units with}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2]
  // expected-error @below {{shares units with a rank that takes other turns: they share the same passes}}
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
}

// -----

// Samples count once for all ranks of a pipeline.
// expected-error @below {{gives its ranks 2 samples in all, not the global batch of 4}}
zero.plan stage 0 global_batch 4 policy "p" schedule "1f1b" {
  zero.group units [0, 2] stage 0 tensor 2
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" micro_batch 1 steps 2 last 1
  zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
}

// -----

// The cluster beside the plan.

cluster.device_type @t target "host" memory 1 precision f32
cluster.node @n devices [@t]
zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{is on node 'm', which is not a cluster.node}}
  zero.rank @t node "m" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @t target "host" memory 1 precision f32
cluster.node @n devices [@t]
zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{is on a device of type @u, which is not a cluster.device_type}}
  zero.rank @u node "n" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @t target "host" memory 1 precision f32
cluster.device_type @u target "host" memory 1 precision f32
// expected-note @below {{the node}}
cluster.node @n devices [@t, 2 x @u]
cluster.link inside nodes latency 0.0 bandwidth 1.0e+09
zero.plan stage 0 global_batch 2 policy "p" {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
  // expected-error @below {{is on a device of type @t of node 'n', which has 1 of them: too few for the plan}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{names '$(touch X)': a name starts with a letter or a digit}}
  zero.rank @t node "$(touch X)" micro_batch 1 steps 1 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{names '../x': a name starts with a letter or a digit}}
  zero.rank @"../x" node "n" micro_batch 1 steps 1 last 1
}

// -----

// What is written is read, or refused.

// expected-error @below {{has the unknown attribute 'simulated_second'}}
zero.plan stage 0 global_batch 1 policy "p" attributes {simulated_second = 1.0 : f64} {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{priced_plans holds {cost = 1.000000e+00 : f64, devices = "2 a"}, expected devices, policy, simulated_seconds and cost}}
zero.plan stage 0 global_batch 1 policy "p" attributes {priced_plans = [{devices = "2 a", cost = 1.0 : f64}]} {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{simulated_seconds is -1.000000e+00 : f64, expected a finite f64, not negative}}
zero.plan stage 0 global_batch 1 policy "p" attributes {simulated_seconds = -1.0 : f64} {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{attribute 'predicted_seconds' failed to satisfy constraint: 64-bit float attribute}}
zero.plan stage 0 global_batch 1 policy "p" attributes {predicted_seconds = 1 : i64} {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{has the unknown attribute 'priority'}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 {priority = 1 : i64}
}

// -----

zero.plan stage 0 global_batch 4 policy "p" schedule "gpipe" {
  // expected-error @below {{has the unknown attribute 'bounds'}}
  zero.group units [0, 2] stage 0 {bounds = 1 : i64}
  zero.group units [2, 4] stage 0
  zero.rank @t node "n" micro_batch 2 steps 2 last 2
  zero.rank @t node "n" group 1 micro_batch 2 steps 2 last 2
}

// -----

nn.parameter @w : tensor<64xf32> ones
// expected-error @below {{has the unknown attribute 'wire'}}
zero.bucket @b [@w] {wire = f32}

// -----

zero.plan stage 0 global_batch 2 policy "p" {
  zero.rank @t node "n" micro_batch 2 steps 1 last 2
  // expected-error @below {{has 3 micro-steps, but the global batch has 2 samples}}
  zero.rank @t node "n" micro_batch 0 steps 3 last 0
}

// -----

zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{has 4097 threads, expected 1 to 4096}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 threads 4097
}

// -----

zero.plan stage 0 global_batch 1 policy "p" {
  // expected-error @below {{has the recompute policy 'all', expected keep, recompute-attention, recompute-unit}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 recompute "all"
}

// -----

nn.parameter @w : tensor<64xf32> ones
nn.parameter @f : tensor<64xf32> ones frozen
// expected-error @below {{is trained, but @f is frozen: a bucket holds parameters of one kind}}
zero.bucket @b [@w, @f]

// -----

nn.parameter @w : tensor<64xf32> ones
// expected-error @below {{is frozen, but @w is trained: a bucket holds parameters of one kind}}
zero.bucket @b [@w] frozen

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
// expected-error @below {{is not quantized, but @q is of type 'tensor<8x8x!nn.quantized<nf4>>': a bucket holds parameters of one format}}
zero.bucket @b [@q] frozen

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
nn.parameter @p : tensor<8x8x!nn.quantized<int8>> ones frozen
// expected-error @below {{is quantized, but @p is of type 'tensor<8x8x!nn.quantized<int8>>': a bucket holds parameters of one format}}
zero.bucket @b [@q, @p] frozen quantized

// -----

module attributes {nn.model = {state_bits = 8 : i64}} {
  nn.parameter @s : tensor<64xf32> ones
  nn.parameter @w : tensor<4096xf32> ones
  // expected-error @below {{has @w, whose moments are in blocks, behind a parameter whose moments are in f32: they come first}}
  zero.bucket @b [@s, @w]
}

// -----

module attributes {nn.model = {state_bits = 8 : i64}} {
  nn.parameter @w : tensor<4100xf32> ones
  nn.parameter @s : tensor<64xf32> ones
  // expected-error @below {{has a shard of rank 1 that begins at 528, in the middle of a block of moments: expected a multiple of 256}}
  zero.bucket @b [@w, @s] bounds [0, 528, 4416]
}

// -----

nn.parameter @f : tensor<64xf32> ones
// expected-error @below {{is quantized but not frozen}}
zero.bucket @b [@f] quantized

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
zero.bucket @b [@q] frozen quantized bounds [0, 64]
func.func @f() {
  // expected-error @below {{carries @b, which is quantized, as 'f32'}}
  %0 = zero.all_gather @b wire f32 : tensor<8x8x!nn.quantized<nf4>>
  return
}

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
zero.bucket @b [@q] frozen quantized bounds [0, 64]
func.func @f() {
  // expected-error @below {{has a value of type 'tensor<8x8xf32>' for @q of 'tensor<8x8x!nn.quantized<nf4>>'}}
  %0 = zero.all_gather @b wire ui8 : tensor<8x8xf32>
  return
}

// -----

// expected-error @below {{std needs the init 'normal' or 'uniform', found 'ones'}}
nn.parameter @w : tensor<64xf32> ones std 0.1

// -----

// expected-error @below {{has the unknown target 'gpu:1'}}
zero.program "t" target "gpu:1" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1

// -----

// expected-error @below {{has the recompute policy 'all', expected keep, recompute-attention, recompute-unit}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "all" stage 0 world_size 1

// -----

// expected-error @below {{has group 2 of 2}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 2 of 2

// -----

// expected-error @below {{has position 3 of 2 parts}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [3, 1] position 3

// -----

// expected-error @below {{attribute 'world_size' failed to satisfy constraint}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 0

// -----

// expected-note @below {{the first one}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1
// expected-error @below {{duplicates the zero.program of its module}}
zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1

// -----

// expected-error @below {{"zero.turns" is not an attribute of an operation}}
func.func private @forward() attributes {zero.turns = 0 : i64}

// -----

// expected-error @below {{zero.turn must be the number of a chunk on a function}}
func.func private @forward() attributes {zero.turn}

// -----

// expected-error @below {{zero.residual must be the number of a residual}}
func.func private @backward(tensor<?xf32> {zero.residual = -1 : i64})

// -----

// expected-error @below {{"zero.sent" is not an attribute of arguments or results}}
func.func private @forward() -> (tensor<?xf32> {zero.sent})

// -----

// expected-error @below {{gradient_wire is 'f16', expected bf16 or i8}}
zero.plan stage 0 global_batch 1 policy "p" gradient_wire f16 {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has a parameter_wire, but in stage 0 parameters are not sent}}
zero.plan stage 0 global_batch 1 policy "p" parameter_wire i8 {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{attribute 'gradient_wire' failed to satisfy constraint: f32, bf16, f16, i8 or ui8}}
zero.plan stage 0 global_batch 1 policy "p" gradient_wire i16 {
  zero.rank @t node "n" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has replicas, but in stage 0 nothing is sharded: leave them out}}
zero.plan stage 0 global_batch 4 policy "p" replicas 2 {
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has 3 ranks for 2 replicas: shard groups have equally many, two or more}}
zero.plan stage 3 global_batch 3 policy "p" replicas 2 {
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has 2 ranks for 2 replicas: shard groups have equally many, two or more}}
zero.plan stage 3 global_batch 2 policy "p" replicas 2 {
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has replicas and rounds what crosses between nodes, which are not generated together: leave out gradient_wire and parameter_wire, or replicas}}
zero.plan stage 3 global_batch 4 policy "p" replicas 2 gradient_wire i8 {
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

// expected-error @below {{has replicas, which plans of ZeRO alone have, but also zero.group: leave out one of them}}
zero.plan stage 1 global_batch 2 policy "p" schedule "1f1b" replicas 2 {
  zero.group units [0, 3] stage 1
  zero.group units [3, 5] stage 1
  zero.rank @a node "n" group 0 micro_batch 1 steps 1 last 1
  zero.rank @a node "n" group 0 micro_batch 1 steps 1 last 1
  zero.rank @a node "n" group 1 micro_batch 1 steps 1 last 1
  zero.rank @a node "n" group 1 micro_batch 1 steps 1 last 1
}

// -----

zero.plan stage 3 global_batch 4 policy "p" replicas 2 {
  // expected-note @below {{the other rank}}
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  // expected-error @below {{holds another share of the state than the rank in its place of the first shard group}}
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1 state 2.0
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

module {
  // expected-error @below {{has 3 ranks for 2 replicas}}
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 3 replicas 2
}

// -----

zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{has the recompute policy 'recompute-unit:x', expected keep, recompute-attention, recompute-unit, or recompute-attention:N or recompute-unit:N for the first N layers}}
  zero.rank @t node "n" micro_batch 1 steps 1 last 1 recompute "recompute-unit:x"
}

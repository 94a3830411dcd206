// The least time there is, worked out by hand. Links cost nothing here. A
// sample takes 0.25 s on @fast and 1 s on @slow; 4 fit on either, but in stage 3
// only 2 on @fast. All ranks together do 4 * 4 + 1 = 17 samples a second.

// RUN: poplar-opt %s --hetero-allocate="global-batch=15 zero=0" | FileCheck %s --check-prefix=SHARE
// RUN: poplar-opt %s --hetero-allocate="global-batch=15 zero=1" | FileCheck %s --check-prefix=SHARE
// RUN: poplar-opt %s --hetero-allocate="global-batch=15 zero=2" | FileCheck %s --check-prefix=SHARE
// RUN: poplar-opt %s --hetero-allocate="global-batch=51 zero=0" | FileCheck %s --check-prefix=OWN
// RUN: poplar-opt %s --hetero-allocate="global-batch=51 zero=2" | FileCheck %s --check-prefix=MEET
// RUN: poplar-opt %s --hetero-allocate="global-batch=51 zero=3" | FileCheck %s --check-prefix=IDLE
// RUN: poplar-opt %s --hetero-allocate="global-batch=1 zero=0" | FileCheck %s --check-prefix=ONE
// RUN: poplar-opt %s --hetero-allocate="global-batch=1 zero=3" | FileCheck %s --check-prefix=ONE
// RUN: poplar-opt %s --hetero-allocate="global-batch=3 zero=2" | FileCheck %s --check-prefix=FEW
// RUN: poplar-opt %s --hetero-allocate="global-batch=47 zero=1" | FileCheck %s --check-prefix=PRIME1
// RUN: poplar-opt %s --hetero-allocate="global-batch=47 zero=2" | FileCheck %s --check-prefix=PRIME2
// RUN: poplar-opt %s --hetero-allocate="global-batch=51 zero=2" | poplar-opt | FileCheck %s --check-prefix=MEET

// The plan comes behind all else, which stays as it is. In 0.75 s, four
// @fast take 12 samples at most and @slow none; so 1 s, in which four @fast alone
// take 16. They share 15 as 4, 4, 4 and 3.
// SHARE: nn.parameter @w
// SHARE: cluster.profile @slow stage 3
// SHARE-NEXT: zero.plan stage {{[012]}} global_batch 15 policy "exact" attributes {lower_bound_seconds = {{.*}} : f64, predicted_seconds = 1.000000e+00 : f64} {
// SHARE-COUNT-3: zero.rank @fast node "n0" micro_batch 4 steps 1 last 4{{$}}
// SHARE-NEXT: zero.rank @fast node "n0" micro_batch 3 steps 1 last 3{{$}}
// SHARE-NEXT: zero.rank @slow node "n1" micro_batch 0 steps 1 last 0{{$}}
// SHARE-NEXT: }

// 51 samples at 17 a second are 3 s: 12 for each @fast, 3 for @slow. Ranks
// that meet at the end only have their own numbers of steps, the fewest that
// memory permits.
// OWN: zero.plan stage 0 {{.*}}predicted_seconds = 3.000000e+00 : f64}
// OWN-COUNT-4: zero.rank @fast node "n0" micro_batch 4 steps 3 last 4{{$}}
// OWN-NEXT: zero.rank @slow node "n1" micro_batch 3 steps 1 last 3{{$}}

// The same by steps of 17, in which @slow has one sample and is done with it
// when @fast is done with 4.
// MEET: zero.plan stage 2 {{.*}}predicted_seconds = 3.000000e+00 : f64}
// MEET-COUNT-4: zero.rank @fast node "n0" micro_batch 4 steps 3 last 4{{$}}
// MEET-NEXT: zero.rank @slow node "n1" micro_batch 1 steps 3 last 1{{$}}

// Where @fast holds only 2, a sample on @slow would make it wait: 9 samples a
// second, where without @slow 8 take 0.5 s. Six steps of 8 and one of 3: 3.25 s.
// @slow takes part in all of them, without samples.
// IDLE: zero.plan stage 3 {{.*}}predicted_seconds = 3.250000e+00 : f64}
// IDLE-COUNT-3: zero.rank @fast node "n0" micro_batch 2 steps 7 last 1{{$}}
// IDLE-NEXT: zero.rank @fast node "n0" micro_batch 2 steps 7 last 0{{$}}
// IDLE-NEXT: zero.rank @slow node "n1" micro_batch 0 steps 7 last 0{{$}}

// Fewer samples than ranks.
// ONE: zero.plan {{.*}}predicted_seconds = 2.500000e-01 : f64}
// ONE-NEXT: zero.rank @fast node "n0" micro_batch 1 steps 1 last 1{{$}}
// ONE-COUNT-3: zero.rank @fast node "n0" micro_batch 0 steps 1 last 0{{$}}
// ONE-NEXT: zero.rank @slow node "n1" micro_batch 0 steps 1 last 0{{$}}

// FEW: zero.plan {{.*}}predicted_seconds = 2.500000e-01 : f64}
// FEW-COUNT-3: zero.rank @fast node "n0" micro_batch 1 steps 1 last 1{{$}}
// FEW-NEXT: zero.rank @fast node "n0" micro_batch 0 steps 1 last 0{{$}}
// FEW-NEXT: zero.rank @slow node "n1" micro_batch 0 steps 1 last 0{{$}}

// A prime. In 2.75 s, four @fast do 44 samples and @slow 2, one too few. In 3 s,
// @fast could do 12 each; it takes 45 of its 48 if @slow takes 2.
// PRIME1: zero.plan stage 1 {{.*}}predicted_seconds = 3.000000e+00 : f64}
// PRIME1-NEXT: zero.rank @fast node "n0" micro_batch 4 steps 3 last 4{{$}}
// PRIME1-COUNT-3: zero.rank @fast node "n0" micro_batch 4 steps 3 last 3{{$}}
// PRIME1-NEXT: zero.rank @slow node "n1" micro_batch 2 steps 1 last 2{{$}}

// Two steps of 17 and one of 13, without @slow.
// PRIME2: zero.plan stage 2 {{.*}}predicted_seconds = 3.000000e+00 : f64}
// PRIME2-NEXT: zero.rank @fast node "n0" micro_batch 4 steps 3 last 4{{$}}
// PRIME2-COUNT-3: zero.rank @fast node "n0" micro_batch 4 steps 3 last 3{{$}}
// PRIME2-NEXT: zero.rank @slow node "n1" micro_batch 1 steps 3 last 0{{$}}

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @fast target "host" memory 1000000 precision f32
cluster.device_type @slow target "host" memory 1000000 precision f32
cluster.node @n0 devices [4 x @fast]
cluster.node @n1 devices [@slow]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.link between nodes latency 0 bandwidth 1.0e30
cluster.profile @fast stage 0 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @fast stage 1 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @fast stage 2 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @fast stage 3 micro_batches [1, 2] seconds [0.25, 0.5]
cluster.profile @slow stage 0 micro_batches [1, 4] seconds [1.0, 4.0]
cluster.profile @slow stage 1 micro_batches [1, 4] seconds [1.0, 4.0]
cluster.profile @slow stage 2 micro_batches [1, 4] seconds [1.0, 4.0]
cluster.profile @slow stage 3 micro_batches [1, 4] seconds [1.0, 4.0]

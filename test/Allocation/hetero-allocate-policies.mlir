// The optimum against the baselines and a user's own shares, worked out by
// hand. Links cost nothing here. A sample takes 0.25 s on @a100 and 1 s on
// @v100, which is rated at half the FLOP/s; 4 samples fit on an @a100, 2
// on a @v100.

// RUN: poplar-opt %s --hetero-allocate="global-batch=36 zero=2" | FileCheck %s --check-prefix=EXACT
// RUN: poplar-opt %s --hetero-allocate="global-batch=36 zero=2 policy=poplar" | FileCheck %s --check-prefix=POPLAR
// RUN: poplar-opt %s --hetero-allocate="global-batch=36 zero=2 policy=uniform" | FileCheck %s --check-prefix=UNIFORM
// RUN: poplar-opt %s --hetero-allocate="global-batch=36 zero=2 policy=whale" | FileCheck %s --check-prefix=WHALE
// RUN: poplar-opt %s --hetero-allocate="global-batch=36 zero=2 policy=homogeneous:a100" | FileCheck %s --check-prefix=ALONE
// RUN: poplar-opt %s --hetero-allocate="global-batch=32 zero=2 policy=batch:a100=15,v100=2" | FileCheck %s --check-prefix=SHARES
// RUN: poplar-opt %s --hetero-allocate="global-batch=32 zero=0 policy=batch:a100=16,v100=0" | FileCheck %s --check-prefix=NONE

// In 1 s, 4 @a100 take 16 samples and 2 @v100 take 2. Two such steps are all.
// EXACT: zero.plan stage 2 global_batch 36 policy "exact" attributes {lower_bound_seconds = {{.*}} : f64, predicted_seconds = 2.000000e+00 : f64}
// EXACT-COUNT-4: zero.rank @a100 node "dgx" micro_batch 4 steps 2 last 4{{$}}
// EXACT-COUNT-2: zero.rank @v100 node "old" micro_batch 1 steps 2 last 1 threads 3{{$}}

// The paper's sweep finds the same.
// POPLAR: zero.plan stage 2 global_batch 36 policy "poplar" attributes {predicted_seconds = 2.000000e+00 : f64}
// POPLAR-COUNT-4: zero.rank @a100 node "dgx" micro_batch 4 steps 2 last 4{{$}}
// POPLAR-COUNT-2: zero.rank @v100 node "old" micro_batch 1 steps 2 last 1 threads 3{{$}}

// One micro-batch for all: three steps of 2 take 2 s each.
// UNIFORM: policy "uniform" attributes {predicted_seconds = 6.000000e+00 : f64}
// UNIFORM-COUNT-4: zero.rank @a100 node "dgx" micro_batch 2 steps 3 last 2{{$}}
// UNIFORM-COUNT-2: zero.rank @v100 node "old" micro_batch 2 steps 3 last 2 threads 3{{$}}

// By FLOP/s, 4 : 1 for the types. In two steps of 18, @v100 would take 3.6,
// which makes 2 on one of them, 2 s a step. Best is what rounding does to nine
// steps of 4: 3.2 : 0.8 becomes 4 : 0, and each takes 0.25 s.
// WHALE: policy "whale" attributes {predicted_seconds = 2.250000e+00 : f64}
// WHALE-COUNT-4: zero.rank @a100 node "dgx" micro_batch 1 steps 9 last 1{{$}}
// WHALE-COUNT-2: zero.rank @v100 node "old" micro_batch 0 steps 9 last 0 threads 3{{$}}

// 36 samples at 16 a second. The others are no ranks of the job.
// ALONE: policy "homogeneous:a100" attributes {predicted_seconds = 2.250000e+00 : f64}
// ALONE-COUNT-4: zero.rank @a100 node "dgx" micro_batch 3 steps 3 last 3{{$}}
// ALONE-NEXT: }

// As the user says, spread evenly. The 15 samples of the last step are shared
// in the same proportion, 13.2 : 1.8.
// SHARES: zero.plan stage 2 global_batch 32 policy "batch:a100=15,v100=2" attributes {predicted_seconds = 2.000000e+00 : f64}
// SHARES-NEXT: zero.rank @a100 node "dgx" micro_batch 4 steps 2 last 4{{$}}
// SHARES-COUNT-2: zero.rank @a100 node "dgx" micro_batch 4 steps 2 last 3{{$}}
// SHARES-NEXT: zero.rank @a100 node "dgx" micro_batch 3 steps 2 last 3{{$}}
// SHARES-COUNT-2: zero.rank @v100 node "old" micro_batch 1 steps 2 last 1 threads 3{{$}}

// NONE: policy "batch:a100=16,v100=0"
// NONE-COUNT-4: zero.rank @a100 node "dgx" micro_batch 4 steps 2 last 4{{$}}
// NONE-COUNT-2: zero.rank @v100 node "old" micro_batch 0 steps 1 last 0 threads 3{{$}}

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @a100 target "host" memory 1000000 precision f32 flops {f32 = 3.0e12}
cluster.device_type @v100 target "host" memory 1000000 precision f32 flops {f32 = 1.5e12} threads 3
cluster.node @dgx devices [4 x @a100]
cluster.node @old devices [2 x @v100]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.link between nodes latency 0 bandwidth 1.0e30
cluster.profile @a100 stage 0 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @a100 stage 2 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @v100 stage 0 micro_batches [1, 2] seconds [1.0, 2.0]
cluster.profile @v100 stage 2 micro_batches [1, 2] seconds [1.0, 2.0]

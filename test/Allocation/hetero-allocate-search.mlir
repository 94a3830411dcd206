// What is searched beside the batches: which devices take part, and what they
// recompute.

// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=16" | FileCheck %s
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=16 leave-out=none recompute=as-set" | FileCheck %s --check-prefix=ALL
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=16 policy=poplar recompute=as-set" | FileCheck %s --check-prefix=ALL
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=16" | poplar-opt | FileCheck %s

// In stage 3, three quarters of 12 000 bytes over the slow link are 9 s a
// step; half of them between the two near devices take no time. A sample takes
// 0.25 s on @near, which has 4 at most, and 1 s on @far, which has one. Each of
// two steps takes 1 s besides.
// CHECK-LABEL: nn.parameter @leave_out
// CHECK: zero.plan stage 3 global_batch 16 policy "exact" attributes {lower_bound_seconds = {{.*}} : f64, predicted_seconds = 2.000000e+00 : f64} {
// CHECK-NEXT: zero.rank @near node "n0" micro_batch 4 steps 2 last 4{{$}}
// CHECK-NEXT: zero.rank @near node "n0" micro_batch 4 steps 2 last 4{{$}}
// CHECK-NEXT: }
// ALL-LABEL: nn.parameter @leave_out
// ALL: zero.plan stage 3
// ALL-COUNT-2: zero.rank @near
// ALL-COUNT-2: zero.rank @far

nn.parameter @leave_out : tensor<1000xf32> ones
cluster.device_type @near target "host" memory 1000000 precision f32
cluster.device_type @far target "host" memory 1000000 precision f32
cluster.node @n0 devices [2 x @near]
cluster.node @n1 devices [2 x @far]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.link between nodes latency 0 bandwidth 1000
cluster.profile @near stage 3 micro_batches [1, 4] seconds [0.25, 1.0]
cluster.profile @far stage 3 micro_batches [1] seconds [1.0] max_micro_batch 1

// -----

// One of the devices of a type is on a node that is far from the others.
// CHECK-LABEL: nn.parameter @leave_out_some
// CHECK: zero.plan stage 3 {{.*}}predicted_seconds = 2.000000e+00 : f64} {
// CHECK-NEXT: zero.rank @card node "b"
// CHECK-NEXT: zero.rank @card node "c"
// CHECK-NEXT: }
// ALL-LABEL: nn.parameter @leave_out_some
// ALL: zero.plan stage 3
// ALL-NEXT: zero.rank @card node "a"
// ALL-NEXT: zero.rank @card node "b"
// ALL-NEXT: zero.rank @card node "c"

nn.parameter @leave_out_some : tensor<1000xf32> ones
cluster.device_type @card target "host" memory 1000000 precision f32
cluster.node @a devices [@card]
cluster.node @b devices [@card]
cluster.node @c devices [@card]
cluster.link between nodes latency 0 bandwidth 1000
cluster.link between @b and @c latency 0 bandwidth 1.0e30
cluster.profile @card stage 3 micro_batches [1, 4] seconds [0.25, 1.0]

// -----

// Two steps of 8 that recompute, 9.8 s each, against sixteen of one sample that
// is kept, 2 s each. The profile that named no policy was of what the type was
// set to.
// CHECK-LABEL: nn.parameter @recompute
// CHECK: cluster.device_type @card {{.*}} recompute "recompute-unit"
// CHECK: cluster.profile @card stage 0 {{.*}} recompute "keep"
// CHECK: cluster.profile @card stage 0 {{.*}} recompute "recompute-unit"
// CHECK: zero.plan stage 0 {{.*}}predicted_seconds = 1.960000e+01 : f64}
// CHECK-NEXT: micro_batch 8 steps 2 last 8{{$}}
// ALL-LABEL: nn.parameter @recompute
// ALL-NOT: recompute "keep"
// ALL: zero.plan stage 0 {{.*}}predicted_seconds = 3.200000e+01 : f64}
// ALL-NEXT: micro_batch 1 steps 16 last 1{{$}}

nn.parameter @recompute : tensor<1000xf32> ones
cluster.device_type @card target "host" memory 20000 precision f32
cluster.node @n devices [@card]
cluster.profile @card stage 0 micro_batches [1, 8] seconds [2.0, 9.0] memory fixed 16000 per_sample 4000
cluster.profile @card stage 0 micro_batches [1, 8] seconds [2.1, 9.8] memory fixed 16000 per_sample 500 recompute "recompute-unit"

// State by memory, in stage 1: 8 bytes of the optimizer's for each of 1000
// elements. Next to the state, a rank needs 12 000 bytes and 3000 a sample. A
// step takes 0.25 s and 0.25 s a sample; links cost nothing.

// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=24 zero=1 state=equal" | FileCheck %s --check-prefix=EQUAL
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=24 zero=1 state=memory" | FileCheck %s --check-prefix=MEMORY
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=24 zero=1 state=auto" | FileCheck %s --check-prefix=AUTO
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=24 zero=1 state=auto policy=poplar" | FileCheck %s --check-prefix=BASELINE
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=24 zero=0 state=memory" | FileCheck %s --check-prefix=STAGE0

// With half of the state, @small has no room for a sample, @large for 8. With
// 2000 of the 8000 bytes, @small has room for one, and @large for 22 000 / 3000,
// 7. Then @small is done with 9 samples when @large is with 15 in 3 steps, after
// 4.5 s.
// EQUAL: zero.plan stage 1 {{.*}}predicted_seconds = 6.750000e+00 : f64}
// EQUAL-NEXT: zero.rank @large node "n" micro_batch 8 steps 3 last 8{{$}}
// EQUAL-NEXT: zero.rank @small node "n" micro_batch 0 steps 1 last 0{{$}}
// BASELINE: zero.plan stage 1
// BASELINE-NEXT: zero.rank @large {{.*}} last 8{{$}}
// AUTO: zero.plan stage 1 {{.*}}predicted_seconds = 4.500000e+00 : f64}
// MEMORY: zero.plan stage 1 {{.*}}predicted_seconds = 4.500000e+00 : f64}
// MEMORY-NEXT: zero.rank @large node "n" micro_batch {{[5-8]}} steps {{.*}} state 7.680000e-01{{$}}
// MEMORY-NEXT: zero.rank @small node "n" micro_batch 1 steps 9 last 1 state 2.320000e-01{{$}}

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @large target "host" memory 40000 precision f32
cluster.device_type @small target "host" memory 17000 precision f32
cluster.node @n devices [@large, @small]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.profile @large stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 12000 per_sample 3000
cluster.profile @large stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @small stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 12000 per_sample 3000
cluster.profile @small stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000

// Nothing is sharded in stage 0.
// STAGE0: zero.plan stage 0
// STAGE0-NEXT: zero.rank @large {{.*}} last {{[0-9]+$}}
// STAGE0-NEXT: zero.rank @small {{.*}} last {{[0-9]+$}}

// -----

// Next to one sample, @large has 7000 bytes and @small 5000 for the 63 units of
// 16 elements, 128 bytes each. Next to two samples @large has 4000, 31 units,
// and then @small takes the other 32. So 24 samples take max(7 * 0.75, 10 * 0.5)
// s.
// MEMORY: zero.plan stage 1 {{.*}}predicted_seconds = 5.250000e+00 : f64}
// MEMORY-NEXT: zero.rank @large node "n" micro_batch 2 steps 7 last 2 state 4.960000e-01{{$}}
// MEMORY-NEXT: zero.rank @small node "n" micro_batch 1 steps 10 last 1 state 5.040000e-01{{$}}

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @large target "host" memory 22000 precision f32
cluster.device_type @small target "host" memory 20000 precision f32
cluster.node @n devices [@large, @small]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.profile @large stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 12000 per_sample 3000
cluster.profile @large stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @small stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 12000 per_sample 3000
cluster.profile @small stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000

// What fits. A step takes 0.25 s and 0.25 s a sample, so the largest micro-batch
// that fits is best. A lone rank needs 20 000 bytes and 3000 a
// sample; @card has 30 000. Of its state, the optimizer's 8 bytes an element
// are sharded in stage 1, 4 of the gradients in stage 2, 4 of the parameters in
// stage 3: for two ranks and 1000 elements 4000, 6000 and 8000 bytes less.

// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=120 zero=0" | FileCheck %s --check-prefix=STAGE0
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=120 zero=1" | FileCheck %s --check-prefix=STAGE1
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=120 zero=2" | FileCheck %s --check-prefix=STAGE2
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=120 zero=3" | FileCheck %s --check-prefix=STAGE3
// RUN: poplar-opt %s --split-input-file --hetero-allocate="global-batch=120" | FileCheck %s --check-prefix=AUTO

// 10 000 / 3000 is 3, 14 000 / 3000 is 4, 16 000 / 3000 is 5, 18 000 / 3000 is
// 6. Links cost nothing, so auto takes what has the fewest steps.
// STAGE0: zero.plan stage 0 {{.*}}predicted_seconds = 2.000000e+01 : f64}
// STAGE0-COUNT-2: zero.rank @card node "n" micro_batch 3 steps 20 last 3
// STAGE1: zero.plan stage 1 {{.*}}predicted_seconds = 1.875000e+01 : f64}
// STAGE1-COUNT-2: zero.rank @card node "n" micro_batch 4 steps 15 last 4
// STAGE2: zero.plan stage 2 {{.*}}predicted_seconds = 1.800000e+01 : f64}
// STAGE2-COUNT-2: zero.rank @card node "n" micro_batch 5 steps 12 last 5
// STAGE3: zero.plan stage 3 {{.*}}predicted_seconds = 1.750000e+01 : f64}
// STAGE3-COUNT-2: zero.rank @card node "n" micro_batch 6 steps 10 last 6
// AUTO: zero.plan stage 3 {{.*}}predicted_seconds = 1.750000e+01 : f64}

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @card target "host" memory 30000 precision f32
cluster.node @n devices [2 x @card]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.profile @card stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 2 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 3 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000

// -----

// A bucket of 1024 elements: 4096 bytes of gradients come and go in stages 2 and
// 3, and in stage 3 two gathered buckets as well. 11 904 / 3000 is 3, and
// 5712 / 3000 is 1.
//
// A link of 4000 bytes a second and no latency: half of the 4096 bytes of
// gradients or parameters take 0.512 s. Nothing hides the first gather and the
// last reduction, and there are no others, but for a gather of half of 4000
// bytes in the backward pass of stage 3, 0.5 s, of which a step of one sample
// hides 1/3 s. Stages 0 and 1 need 1.024 s an iteration, stage 2 needs 0.512 s
// and 0.512 s a step, stage 3 needs 1.024 + 1/6 s a step. The exchanges of counts
// take 0.01 s.
// STAGE0: zero.plan stage 0 {{.*}}predicted_seconds = {{(2[.]1034|21[.]03)[^ ]*}} : f64}
// STAGE0-COUNT-2: zero.rank @card node "n" micro_batch 3 steps 20 last 3
// STAGE1: zero.plan stage 1 {{.*}}predicted_seconds = {{(1[.]9784|19[.]78)[^ ]*}} : f64}
// STAGE1-COUNT-2: zero.rank @card node "n" micro_batch 4 steps 15 last 4
// STAGE2: zero.plan stage 2 {{.*}}predicted_seconds = {{(3[.]0762|30[.]76)[^ ]*}} : f64}
// STAGE2-COUNT-2: zero.rank @card node "n" micro_batch 3 steps 20 last 3
// STAGE3: zero.plan stage 3 {{.*}}predicted_seconds = {{(1[.]0145|101[.]4)[^ ]*}} : f64}
// STAGE3-COUNT-2: zero.rank @card node "n" micro_batch 1 steps 60 last 1
// AUTO: zero.plan stage 1 {{.*}}predicted_seconds = {{(1[.]9784|19[.]78)[^ ]*}} : f64}

nn.parameter @w : tensor<1000xf32> ones
zero.bucket @bucket [@w]
cluster.device_type @card target "host" memory 30000 precision f32
cluster.node @n devices [2 x @card]
cluster.link inside nodes latency 0 bandwidth 4.0e3
cluster.profile @card stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 2 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000
cluster.profile @card stage 3 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 3000

// -----

// One sample per device, whatever the memory: max_micro_batch says so. Stage 0
// is the first of equals.
// STAGE0: zero.plan stage 0 {{.*}}predicted_seconds = 2.000000e+01 : f64}
// STAGE0-COUNT-3: zero.rank @card node "n" micro_batch 1 steps 40 last 1
// STAGE3: zero.plan stage 3 {{.*}}predicted_seconds = 2.000000e+01 : f64}
// STAGE3-COUNT-3: zero.rank @card node "n" micro_batch 1 steps 40 last 1
// AUTO: zero.plan stage 0

nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @card target "host" memory 30000 precision f32
cluster.node @n devices [3 x @card]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.profile @card stage 0 micro_batches [1] seconds [0.5] max_micro_batch 1
cluster.profile @card stage 1 micro_batches [1] seconds [0.5] max_micro_batch 1
cluster.profile @card stage 2 micro_batches [1] seconds [0.5] max_micro_batch 1
cluster.profile @card stage 3 micro_batches [1] seconds [0.5] max_micro_batch 1

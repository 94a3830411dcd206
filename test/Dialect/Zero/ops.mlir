// RUN: poplar-opt %s -split-input-file | poplar-opt -split-input-file | FileCheck %s
// RUN: poplar-opt %s -split-input-file -mlir-print-op-generic | poplar-opt -split-input-file | FileCheck %s

// The paper's cluster C in stage 2: 4 ranks of one type share 15 samples as
// 4, 4, 4 and 3, in each of two steps. Defaults are not printed.
// CHECK: zero.plan stage 2 global_batch 34 policy "exact" attributes {predicted_seconds = 1.250000e-01 : f64} {
// CHECK-COUNT-3: zero.rank @a100 node "n0" micro_batch 4 steps 2 last 4{{$}}
// CHECK-NEXT: zero.rank @a100 node "n0" micro_batch 3 steps 2 last 3{{$}}
// CHECK-NEXT: zero.rank @v100 node "n1" micro_batch 2 steps 2 last 2 threads 2 state 5.000000e-01{{$}}
// CHECK-NEXT: zero.rank @v100 node "n1" micro_batch 0 steps 2 last 0 state 0.000000e+00{{$}}
// CHECK-NEXT: }
zero.plan stage 2 global_batch 34 policy "exact" attributes {predicted_seconds = 0.125} {
  zero.rank @a100 node "n0" micro_batch 4 steps 2 last 4
  zero.rank @a100 node "n0" micro_batch 4 steps 2 last 4 threads 1
  zero.rank @a100 node "n0" micro_batch 4 steps 2 last 4 state 1.0
  zero.rank @a100 node "n0" micro_batch 3 steps 2 last 3
  zero.rank @v100 node "n1" micro_batch 2 steps 2 last 2 threads 2 state 0.5
  zero.rank @v100 node "n1" micro_batch 0 steps 2 last 0 state 0.0
}

// -----

// Stages 0 and 1: every rank has its own number of steps. A last step that is
// the largest, and a rank that has nothing to do.
// CHECK: zero.plan stage 0 global_batch 11 policy "batch:a=3,b=0" {
// CHECK-NEXT: zero.rank @a node "n" micro_batch 3 steps 3 last 5
// CHECK-NEXT: zero.rank @b node "n" micro_batch 0 steps 1 last 0
zero.plan stage 0 global_batch 11 policy "batch:a=3,b=0" {
  zero.rank @a node "n" micro_batch 3 steps 3 last 5
  zero.rank @b node "n" micro_batch 0 steps 1 last 0
}

// -----

// What may be lost where links are slow.
// CHECK: zero.plan stage 2 global_batch 2 policy "exact" gradient_wire i8 parameter_wire bf16 {
zero.plan stage 2 global_batch 2 policy "exact" gradient_wire i8 parameter_wire bf16 {
  zero.rank @a node "n" micro_batch 1 steps 1 last 1
  zero.rank @a node "m" micro_batch 1 steps 1 last 1
}

// -----

// CHECK: zero.plan stage 3 global_batch 4 policy "exact" replicas 2 {
zero.plan stage 3 global_batch 4 policy "exact" replicas 2 {
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n0" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
  zero.rank @a node "n1" micro_batch 1 steps 1 last 1
}

// -----

// CHECK: zero.plan stage 0 global_batch 1 policy "exact" gradient_wire bf16 {
zero.plan stage 0 global_batch 1 policy "exact" gradient_wire bf16 {
  zero.rank @a node "n" micro_batch 1 steps 1 last 1
}

// -----

nn.parameter @w : tensor<5x3xf32> normal std 0.02
nn.parameter @b : tensor<33xf32> zeros
nn.parameter @"h.0.w" : tensor<32xf32> ones

// @w has 15 elements, and @b begins at the next multiple of 32; 96 in all.
// Rank 1 owns nothing.
// CHECK: zero.bucket @pair [@w, @b] bounds [0, 48, 48, 96]
zero.bucket @pair [@w, @b] bounds [0, 48, 48, 96]
// CHECK: zero.bucket @alone [@h.0.w]{{$}}
zero.bucket @alone [@"h.0.w"]

// CHECK-LABEL: func @synchronous
func.func @synchronous(%a: tensor<5x3xf32>, %c: tensor<33xf32>) {
  // CHECK: zero.all_gather @pair wire f32{{$}}
  zero.all_gather @pair wire f32
  // CHECK: %[[V:.*]]:2 = zero.all_gather @pair wire bf16 : tensor<5x3xbf16>, tensor<33xbf16>
  %w, %b = zero.all_gather @pair wire bf16 : tensor<5x3xbf16>, tensor<33xbf16>
  // Wire and memory may differ.
  // CHECK: zero.all_gather @alone wire f32 : tensor<32xf16>
  %h = zero.all_gather @alone wire f32 : tensor<32xf16>
  // CHECK: %[[G:.*]]:2 = zero.gradients @pair : tensor<5x3xf32>, tensor<33xf32>
  %g:2 = zero.gradients @pair : tensor<5x3xf32>, tensor<33xf32>
  // CHECK: zero.reduce_scatter @pair wire f32(%[[G]]#0, %[[G]]#1 : tensor<5x3xf32>, tensor<33xf32>)
  zero.reduce_scatter @pair wire f32 (%g#0, %g#1 : tensor<5x3xf32>, tensor<33xf32>)
  // Lossy formats.
  // CHECK: zero.all_gather @pair wire i8{{$}}
  zero.all_gather @pair wire i8
  // CHECK: zero.reduce_scatter @pair wire i8(%{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<33xf32>)
  zero.reduce_scatter @pair wire i8 (%a, %c : tensor<5x3xf32>, tensor<33xf32>)
  // CHECK: zero.all_reduce @pair wire bf16{{$}}
  zero.all_reduce @pair wire bf16
  // CHECK: zero.reduce_scatter @pair wire f32 unscale(%{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<33xf32>)
  zero.reduce_scatter @pair wire f32 unscale (%a, %c : tensor<5x3xf32>, tensor<33xf32>)
  // CHECK: zero.reduce_scatter @alone wire f32 unscale{{$}}
  zero.reduce_scatter @alone wire f32 unscale
  // CHECK: zero.reduce_scatter @alone wire f32{{$}}
  zero.reduce_scatter @alone wire f32
  // CHECK: zero.all_reduce @alone wire f32{{$}}
  zero.all_reduce @alone wire f32
  // CHECK: zero.all_reduce @alone wire f32 unscale{{$}}
  zero.all_reduce @alone wire f32 unscale
  return
}

// CHECK-LABEL: func @asynchronous
func.func @asynchronous(%a: tensor<5x3xf32>, %c: tensor<33xf32>) {
  // CHECK: %[[T0:.*]] = zero.start all_gather @pair wire bf16 transient
  %t0 = zero.start all_gather @pair wire bf16 transient
  // CHECK: %[[T1:.*]] = zero.start all_gather @alone wire f32{{$}}
  %t1 = zero.start all_gather @alone wire f32
  // CHECK: %[[T2:.*]] = zero.start reduce_scatter @pair wire f32 unscale(%{{.*}}, %{{.*}} : tensor<5x3xf32>, tensor<33xf32>)
  %t2 = zero.start reduce_scatter @pair wire f32 unscale (%a, %c : tensor<5x3xf32>, tensor<33xf32>)
  // CHECK: %[[T3:.*]] = zero.start reduce_scatter @alone wire f32{{$}}
  %t3 = zero.start reduce_scatter @alone wire f32
  // CHECK: %[[T4:.*]] = zero.start all_reduce @alone wire f32{{$}}
  %t4 = zero.start all_reduce @alone wire f32
  // CHECK: zero.wait %[[T1]]{{$}}
  zero.wait %t1
  // CHECK: %{{.*}}:2 = zero.wait %[[T0]] : tensor<5x3xbf16>, tensor<33xbf16>
  %w, %b = zero.wait %t0 : tensor<5x3xbf16>, tensor<33xbf16>
  // CHECK: zero.wait %[[T2]]{{$}}
  zero.wait %t2
  // CHECK: zero.wait %[[T3]]{{$}}
  zero.wait %t3
  // CHECK: zero.wait %[[T4]]{{$}}
  zero.wait %t4
  return
}

// CHECK-LABEL: func @update
func.func @update() {
  // CHECK: zero.norm{{$}}
  zero.norm
  // CHECK: zero.norm unscale{{$}}
  zero.norm unscale
  // CHECK: zero.adamw @pair
  zero.adamw @pair
  return
}

// -----

// What sets a program apart.
// CHECK-LABEL: module @a100.program {
// CHECK-NEXT: zero.program "a100" target "cuda:sm_80" precision bf16 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 4{{$}}
module @a100.program {
  zero.program "a100" target "cuda:sm_80" precision bf16 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 4
}
// CHECK-LABEL: module @t.stage1.part1.program {
// CHECK-NEXT: zero.program "t" target "host" precision tf32 wire f32 gradient_wire f32 recompute "recompute-unit" stage 0 world_size 4 mixed_recompute scaled received bf16 sent f32 group 1 of 2 chunks 2 parts [3, 1] position 1{{$}}
module @t.stage1.part1.program {
  zero.program "t" target "host" precision tf32 wire f32 gradient_wire f32 recompute "recompute-unit" stage 0 world_size 4 mixed_recompute scaled received bf16 sent f32 group 1 of 2 chunks 2 parts [3, 1] position 1
}

// Pipeline stages.

// CHECK: zero.plan stage 1 global_batch 2 policy "stages" schedule "custom" {
// CHECK-NEXT: zero.group units [0, 2] stage 1
// CHECK-NEXT: zero.group units [2, 4] stage 0
// CHECK-NEXT: zero.rank @slow node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
// CHECK-NEXT: zero.rank @slow node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2] recompute "keep"
zero.plan stage 1 global_batch 2 policy "stages" schedule "custom" {
  zero.group units [0, 2] stage 1
  zero.group units [2, 4] stage 0
  zero.rank @slow node "n" micro_batch 1 steps 2 last 1 turns [1, 2, -1, -2]
  zero.rank @slow node "n" group 1 micro_batch 1 steps 2 last 1 turns [1, -1, 2, -2] recompute "keep"
}

// CHECK-LABEL: @messages
// CHECK: %[[X:.*]] = zero.receive activation from 0 : tensor<?x4xf32>
// CHECK: zero.send gradient %[[X]] to 0 : tensor<?x4xf32>
func.func @messages() {
  %x = zero.receive activation from 0 : tensor<?x4xf32>
  zero.send gradient %x to 0 : tensor<?x4xf32>
  return
}

// CHECK: zero.plan stage 0 global_batch 1 policy "stages" schedule "custom"
// CHECK-NEXT: zero.group units [0, 1, 2, 3] stage 0
// CHECK-NEXT: zero.group units [1, 2, 3, 4] stage 0
// CHECK-NEXT: zero.rank @fast node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
zero.plan stage 0 global_batch 1 policy "stages" schedule "custom" {
  zero.group units [0, 1, 2, 3] stage 0
  zero.group units [1, 2, 3, 4] stage 0
  zero.rank @fast node "n" micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
  zero.rank @slow node "n" group 1 micro_batch 1 steps 1 last 1 turns [1, 1, -1, -1] chunks [0, 1, 1, 0]
}

// CHECK-LABEL: @second_chunk
// CHECK: %[[X:.*]] = zero.receive activation from 0 chunk 1 : tensor<?x4xf32>
// CHECK: zero.send gradient %[[X]] to 0 chunk 1 : tensor<?x4xf32>
func.func @second_chunk() {
  %x = zero.receive activation from 0 chunk 1 : tensor<?x4xf32>
  zero.send gradient %x to 0 chunk 1 : tensor<?x4xf32>
  return
}

// Devices that share units: as many in all pipelines, or in each. One is not
// printed, nor is a list of one. Groups have unlike numbers of ranks, and those
// of a pipeline count its samples once.
// CHECK: zero.plan stage 1 global_batch 8 policy "stages" schedule "1f1b"
// CHECK-NEXT: zero.group units [0, 2] stage 1{{$}}
// CHECK-NEXT: zero.group units [2, 3] stage 0 tensor 2{{$}}
// CHECK-NEXT: zero.group units [3, 4] stage 0 tensor [1, 4]{{$}}
// CHECK-NEXT: zero.group units [4, 5] stage 0{{$}}
zero.plan stage 1 global_batch 8 policy "stages" schedule "1f1b" {
  zero.group units [0, 2] stage 1 tensor 1
  zero.group units [2, 3] stage 0 tensor [2]
  zero.group units [3, 4] stage 0 tensor [1, 4]
  zero.group units [4, 5] stage 0
  zero.rank @slow node "n" micro_batch 2 steps 3 last 1
  zero.rank @slow node "n" micro_batch 1 steps 3 last 1
  zero.rank @fast node "m" group 1 micro_batch 2 steps 3 last 1 state 0.5
  zero.rank @fast node "m" group 1 micro_batch 2 steps 3 last 1
  zero.rank @slow node "n" group 1 micro_batch 1 steps 3 last 1
  zero.rank @slow node "n" group 1 micro_batch 1 steps 3 last 1
  zero.rank @fast node "o" group 2 micro_batch 2 steps 3 last 1
  zero.rank @slow node "n" group 2 micro_batch 1 steps 3 last 1 recompute "keep"
  zero.rank @slow node "n" group 2 micro_batch 1 steps 3 last 1 recompute "keep"
  zero.rank @slow node "n" group 2 micro_batch 1 steps 3 last 1 recompute "keep"
  zero.rank @slow node "n" group 2 micro_batch 1 steps 3 last 1 recompute "keep"
  zero.rank @fast node "p" group 3 micro_batch 2 steps 3 last 1
  zero.rank @fast node "p" group 3 micro_batch 1 steps 3 last 1
}

// The first eight layers of a rank recompute.
// CHECK: zero.rank @slow node "n" micro_batch 1 steps 1 last 1 recompute "recompute-unit:8"
zero.plan stage 0 global_batch 1 policy "exact" {
  zero.rank @slow node "n" micro_batch 1 steps 1 last 1 recompute "recompute-unit:8"
}

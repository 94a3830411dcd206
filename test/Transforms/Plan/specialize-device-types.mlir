// RUN: poplar-opt %s --specialize-device-types --split-input-file | FileCheck %s

// One program per type in use, in the order of the ranks, each with the whole
// model, the buckets and the plan, and with its own precision and policy. bf16
// and f32 in one job: parameters are on the wire as f32. Both are told that they
// do not recompute alike. Types that no rank uses have no program; the cluster
// stays outside.

// CHECK-NOT: nn.parameter
// CHECK: cluster.device_type @cpu
// CHECK: cluster.node @n
// CHECK-NOT: nn.parameter
// CHECK: module @gpu.program attributes {nn.model = {architecture = "tiny"}} {
// CHECK-NEXT: zero.program "gpu" target "cuda:sm_80" precision bf16 wire f32 gradient_wire f32 recompute "recompute-attention" stage 2 world_size 3 mixed_recompute
// CHECK-NEXT: nn.parameter @w
// CHECK-NEXT: zero.bucket @bucket [@w] bounds [0, 32, 64, 96]
// CHECK-NEXT: func.func @model
// CHECK:      zero.plan stage 2 global_batch 5
// CHECK-COUNT-2: zero.rank @gpu
// CHECK-NEXT: zero.rank @cpu
// CHECK: module @cpu.program attributes {nn.model = {architecture = "tiny"}} {
// CHECK-NEXT: zero.program "cpu" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 3 mixed_recompute
// CHECK-NEXT: nn.parameter @w
// CHECK-NEXT: zero.bucket @bucket [@w] bounds [0, 32, 64, 96]
// CHECK-NEXT: func.func @model
// CHECK:      zero.plan stage 2 global_batch 5
// CHECK-NOT: module @

module attributes {nn.model = {architecture = "tiny"}} {
  nn.parameter @w : tensor<96xf32> ones
  cluster.device_type @cpu target "host" memory 1000000 precision f32
  cluster.device_type @gpu target "cuda:sm_80" memory 1000000 precision bf16 recompute "recompute-attention"
  cluster.device_type @spare target "host" memory 1000000 precision f32
  cluster.node @n devices [2 x @gpu, @cpu]
  cluster.link inside nodes latency 0 bandwidth 1.0e9
  zero.bucket @bucket [@w]
  func.func @model() {
    return
  }
  zero.plan stage 2 global_batch 5 policy "exact" {
    zero.rank @gpu node "n" micro_batch 2 steps 1 last 2
    zero.rank @gpu node "n" micro_batch 2 steps 1 last 2
    zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  }
}

// -----

// All in bf16: so is the wire. Shards are whole lines of 16 elements, by the
// shares of the state: 96 as 1 : 2 : 0 : 3, where rank 2 owns nothing, and the
// last has what is left. A bucket too small for all goes to some: 32 elements
// are cut at 5.3, 16 and 16, of which the first is rounded to 0.

// CHECK: module @gpu.program {
// CHECK-NEXT: zero.program "gpu" target "cuda:sm_80" precision bf16 wire bf16 gradient_wire f32 recompute "keep" stage 3 world_size 4{{$}}
// CHECK: zero.bucket @large [@w] bounds [0, 16, 48, 48, 96]
// CHECK: zero.bucket @small [@b] bounds [0, 0, 16, 16, 32]
// CHECK: module @other.program {
// CHECK-NEXT: zero.program "other" {{.*}} wire bf16 {{.*}} world_size 4{{$}}

nn.parameter @w : tensor<90xf32> ones
nn.parameter @b : tensor<3xf32> ones
cluster.device_type @gpu target "cuda:sm_80" memory 1000000 precision bf16
cluster.device_type @other target "cuda:sm_90" memory 1000000 precision bf16
cluster.node @n devices [3 x @gpu, @other]
cluster.link inside nodes latency 0 bandwidth 1.0e9
zero.bucket @large [@w]
zero.bucket @small [@b]
zero.plan stage 3 global_batch 4 policy "exact" {
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1 state 2.0
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1 state 0.0
  zero.rank @other node "n" micro_batch 1 steps 1 last 1 state 3.0
}

// -----

// bf16 and f16 have no format in common but f32.

// CHECK: module @gpu.program {
// CHECK-NEXT: zero.program {{.*}} precision bf16 wire f32
// CHECK: module @old.program {
// CHECK-NEXT: zero.program {{.*}} precision f16 wire f32

nn.parameter @w : tensor<64xf32> ones
cluster.device_type @gpu target "cuda:sm_80" memory 1000000 precision bf16
cluster.device_type @old target "cuda:sm_70" memory 1000000 precision f16
cluster.node @n devices [@gpu, @old]
cluster.link inside nodes latency 0 bandwidth 1.0e9
zero.bucket @bucket [@w]
zero.plan stage 0 global_batch 2 policy "exact" {
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @old node "n" micro_batch 1 steps 1 last 1
}

// -----

// One rank is a program like any other, and owns everything.

// CHECK: module @cpu.program {
// CHECK-NEXT: zero.program "cpu" {{.*}} wire f32 {{.*}} world_size 1{{$}}
// CHECK: zero.bucket @bucket [@w] bounds [0, 64]

nn.parameter @w : tensor<64xf32> ones
cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu]
zero.bucket @bucket [@w]
zero.plan stage 0 global_batch 1 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
}

// -----

// Ranks that share units hold the parts that they compute, with the ranks of
// other pipelines; what they all read, all of them hold. The whole parameter
// stays for @model until --zero-shard-units.

// CHECK: module @cpu.part0.program {
// CHECK-NEXT: zero.program {{.*}} parts [3, 1] position 0 sharers_bandwidth 1.000000e+09{{$}}
// CHECK: nn.parameter @e.part0 : tensor<12x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [0, 12]>
// CHECK: nn.parameter @e.part1 : tensor<4x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [12, 16]>
// CHECK: nn.parameter @e : tensor<16x4xf32>
// CHECK: zero.bucket @first.part0 [@e.part0] bounds [0, 32, 32, 64, 64] groups [0] positions [0] stage 2
// CHECK: zero.bucket @first.part1 [@e.part1] bounds [0, 0, 16, 16, 32] groups [0] positions [1] stage 2
// CHECK: zero.bucket @second [@w] bounds [0, {{[0-9, ]+}}] groups [0, 0] positions [0, 1] stage 1
// CHECK: module @cpu.part1.program

nn.parameter @e : tensor<16x4xf32> zeros
nn.parameter @w : tensor<4xf32> ones
cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [6 x @cpu]
cluster.link inside nodes latency 0 bandwidth 1.0e9
zero.bucket @first [@e]
zero.bucket @second [@w]
func.func private @block(%x: tensor<?x2x4xf32>, %w: tensor<4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %y, %r = nn.rms_norm %x, %w eps 1.0e-5 : (tensor<?x2x4xf32>, tensor<4xf32>) -> (tensor<?x2x4xf32>, tensor<?x2xf32>)
  return %y : tensor<?x2x4xf32>
}
func.func private @embed(%ids: tensor<?x2xi32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %e : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  return %0 : tensor<?x2x4xf32>
}
func.func private @loss(%x: tensor<?x2x4xf32>, %e: tensor<16x4xf32> {nn.parameter}, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %e : (tensor<?x2x4xf32>, tensor<16x4xf32>) -> tensor<?x2x16xf32>
  %loss, %lse = nn.cross_entropy %0, %targets : (tensor<?x2x16xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
  return %loss : tensor<?x2xf32>
}
func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
  %e = nn.get_parameter @e : tensor<16x4xf32>
  %w = nn.get_parameter @w : tensor<4xf32>
  %0 = call @embed(%ids, %e) : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  %1 = call @block(%0, %w) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %2 = call @block(%1, %w) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %loss = call @loss(%2, %e, %targets) : (tensor<?x2x4xf32>, tensor<16x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
  return %loss : tensor<?x2xf32>
}
zero.plan stage 2 global_batch 2 policy "stages" {
  zero.group units [0, 4] stage 2 tensor 2 parts [3, 1]
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
}

// -----

// A tied parameter is cut at the bounds of all groups that divide it. Each part has
// holders of its own: here a device of the first group, and that of the second,
// which reads it whole.

// CHECK: module @cpu.stage0.part0.program {
// CHECK: nn.parameter @e.part0 : tensor<8x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [0, 8]>
// CHECK: nn.parameter @e.part1 : tensor<8x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [8, 16]>
// CHECK: nn.parameter @e : tensor<16x4xf32>
// CHECK: zero.bucket @first.shared [@e.part0] bounds {{.*}} groups [0, 1] positions [0, 0] stage 1
// CHECK: zero.bucket @first.shared.1 [@e.part1] bounds {{.*}} groups [0, 1] positions [1, 0] stage 1
// CHECK: module @cpu.stage1.program

nn.parameter @e : tensor<16x4xf32> zeros
nn.parameter @w : tensor<4xf32> ones
cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [6 x @cpu]
cluster.link inside nodes latency 0 bandwidth 1.0e9
zero.bucket @first [@e]
zero.bucket @second [@w]
func.func private @block(%x: tensor<?x2x4xf32>, %w: tensor<4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %y, %r = nn.rms_norm %x, %w eps 1.0e-5 : (tensor<?x2x4xf32>, tensor<4xf32>) -> (tensor<?x2x4xf32>, tensor<?x2xf32>)
  return %y : tensor<?x2x4xf32>
}
func.func private @embed(%ids: tensor<?x2xi32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %e : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  return %0 : tensor<?x2x4xf32>
}
func.func private @loss(%x: tensor<?x2x4xf32>, %e: tensor<16x4xf32> {nn.parameter}, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %e : (tensor<?x2x4xf32>, tensor<16x4xf32>) -> tensor<?x2x16xf32>
  %loss, %lse = nn.cross_entropy %0, %targets : (tensor<?x2x16xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
  return %loss : tensor<?x2xf32>
}
func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
  %e = nn.get_parameter @e : tensor<16x4xf32>
  %w = nn.get_parameter @w : tensor<4xf32>
  %0 = call @embed(%ids, %e) : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  %1 = call @block(%0, %w) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %2 = call @block(%1, %w) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %loss = call @loss(%2, %e, %targets) : (tensor<?x2x4xf32>, tensor<16x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
  return %loss : tensor<?x2xf32>
}
zero.plan stage 1 global_batch 1 policy "stages" schedule "1f1b" {
  zero.group units [0, 2] stage 1 tensor 2
  zero.group units [2, 4] stage 1
  zero.rank @cpu node "n" group 0 micro_batch 1 steps 1 last 1
  zero.rank @cpu node "n" group 0 micro_batch 1 steps 1 last 1
  zero.rank @cpu node "n" group 1 micro_batch 1 steps 1 last 1
}

// -----

// Stages of bf16 and f32 exchange bf16, which is the first one's own format. The
// last one sends nothing, and has no format for it.

// CHECK: module @half.stage0.program {
// CHECK-NEXT: zero.program "half" {{.*}} precision bf16 {{.*}} stage 0 world_size 2 group 0 of 2{{$}}
// CHECK: module @whole.stage1.program {
// CHECK-NEXT: zero.program "whole" {{.*}} precision f32 {{.*}} stage 0 world_size 2 received bf16 group 1 of 2{{$}}

nn.parameter @e : tensor<16x4xf32> zeros
nn.parameter @w : tensor<4xf32> ones
nn.parameter @v : tensor<4xf32> ones
cluster.device_type @half target "host" memory 1000000 precision bf16
cluster.device_type @whole target "host" memory 1000000 precision f32
cluster.node @n devices [@half, @whole]
cluster.link inside nodes latency 0 bandwidth 1.0e9
zero.bucket @tied [@e]
zero.bucket @first [@w]
zero.bucket @second [@v]
func.func private @block(%x: tensor<?x2x4xf32>, %w: tensor<4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %y, %r = nn.rms_norm %x, %w eps 1.0e-5 : (tensor<?x2x4xf32>, tensor<4xf32>) -> (tensor<?x2x4xf32>, tensor<?x2xf32>)
  return %y : tensor<?x2x4xf32>
}
func.func private @embed(%ids: tensor<?x2xi32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %e : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  return %0 : tensor<?x2x4xf32>
}
func.func private @loss(%x: tensor<?x2x4xf32>, %e: tensor<16x4xf32> {nn.parameter}, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %e : (tensor<?x2x4xf32>, tensor<16x4xf32>) -> tensor<?x2x16xf32>
  %loss, %lse = nn.cross_entropy %0, %targets : (tensor<?x2x16xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
  return %loss : tensor<?x2xf32>
}
func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
  %e = nn.get_parameter @e : tensor<16x4xf32>
  %w = nn.get_parameter @w : tensor<4xf32>
  %v = nn.get_parameter @v : tensor<4xf32>
  %0 = call @embed(%ids, %e) : (tensor<?x2xi32>, tensor<16x4xf32>) -> tensor<?x2x4xf32>
  %1 = call @block(%0, %w) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %2 = call @block(%1, %v) : (tensor<?x2x4xf32>, tensor<4xf32>) -> tensor<?x2x4xf32>
  %loss = call @loss(%2, %e, %targets) : (tensor<?x2x4xf32>, tensor<16x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
  return %loss : tensor<?x2xf32>
}
zero.plan stage 0 global_batch 1 policy "stages" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  zero.rank @half node "n" micro_batch 1 steps 1 last 1
  zero.rank @whole node "n" group 1 micro_batch 1 steps 1 last 1
}

// -----

// What a plan lets collectives lose.

// CHECK: module @cpu.program {
// CHECK-NEXT: zero.program "cpu" target "host" precision f32 wire bf16 gradient_wire i8 lossy_parameters recompute "keep" stage 1 world_size 2{{$}}
// CHECK: zero.plan stage 1 global_batch 2 policy "exact" gradient_wire i8 parameter_wire bf16

nn.parameter @w : tensor<64xf32> ones
cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu]
cluster.node @m devices [@cpu]
cluster.link between nodes latency 0 bandwidth 1.0e9
zero.bucket @b [@w]
zero.plan stage 1 global_batch 2 policy "exact" gradient_wire i8 parameter_wire bf16 {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  zero.rank @cpu node "m" micro_batch 1 steps 1 last 1
}

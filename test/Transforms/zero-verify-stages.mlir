// RUN: poplar-opt %s --zero-verify-stages | FileCheck %s
//
// Two stages that can work together; what both hold is reduced in @update.

// CHECK: module @t.stage0.program
// CHECK: module @t.stage1.program
module @t.stage0.program attributes {zero.program = {device_type = "t", stage = 0 : i64, world_size = 2 : i64, group = 0 : i64, groups = 2 : i64}} {
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
module @t.stage1.program attributes {zero.program = {device_type = "t", stage = 0 : i64, world_size = 2 : i64, group = 1 : i64, groups = 2 : i64}} {
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
    zero.all_reduce @b wire f32
    zero.norm
    zero.adamw @b
    return
  }
}

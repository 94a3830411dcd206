// RUN: poplar-opt %s --pass-pipeline='builtin.module(zero-cut-stages,nn-differentiate,zero-split-turns,zero-materialize,convert-nn-to-linalg,canonicalize,cse,form-kernels,plan-memory)' | FileCheck %s
//
// Each chunk has slots, in multiples of 64 bytes a sample, and messages of its own,
// whose bytes are exact: devices that share units send parts of them. In slots lie
// ids, targets and keys; in those of the last chunk also the gradient of the loss,
// and what its backward turn is handed over. What was received stays where it is.

// CHECK-DAG: exec.chunk 0 slot 192 activation_in 32 activation_out 32 gradient_in 32 gradient_out 32
// CHECK-DAG: exec.chunk 1 slot 384 activation_in 32 activation_out 0 gradient_in 0 gradient_out 32
// CHECK: exec.function turn @backward.chunk1() inputs <ids = 0, targets = 64, keys = 128, dloss = 192> {
// CHECK: exec.buffer slot at 256
// CHECK: exec.buffer slot at 320
// CHECK: exec.send gradient
// CHECK: exec.function turn @forward.chunk1() inputs <ids = 0, targets = 64, keys = 128> result
// CHECK: exec.port activation_in
// CHECK: exec.buffer slot at 256
// CHECK: exec.buffer slot at 320
// CHECK: exec.receive activation
// CHECK: exec.function turn @backward.chunk0() inputs <ids = 0, targets = 64, keys = 128> {
// CHECK: exec.port activation_in
module @lasts {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 5] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  zero.bucket @b [@e] bounds [0, 16, 32] groups [0] stage 0
  nn.parameter @e : tensor<8x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @block(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.silu %x : tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @head(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.relu %x : tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @loss(%x: tensor<?x2x4xf32>, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
    return %loss : tensor<?x2xf32>
  }
  func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
    %w = nn.get_parameter @e : tensor<8x4xf32>
    %0 = call @embed(%ids, %w) : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %1 = call @block(%0) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @block(%1) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %h = call @head(%2) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %3 = call @loss(%h, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

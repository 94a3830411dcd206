// RUN: poplar-opt %s --zero-cut-stages --nn-differentiate --zero-split-turns | FileCheck %s

// @train of the first group becomes two turns.
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<8x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @block(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.silu %x : tensor<?x2x4xf32>
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
    %3 = call @loss(%2, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

// The result:
//
// CHECK:   func.func @backward(%arg0: tensor<?x2xi32>, %arg1: tensor<?x2xi32>, %arg2: tensor<?x2xi32>, %arg3: tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn = 0 : i64} {
// CHECK-NEXT:     %0 = zero.receive gradient from 1 : tensor<?x2x4xf32>
// CHECK-NEXT:     %1 = call @block.backward(%arg3, %0) : (tensor<?x2x4xf32>, tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:     %2 = nn.get_gradient @e : tensor<8x4xf32>
// CHECK-NEXT:     %3 = call @embed.backward(%arg0, %1, %2) : (tensor<?x2xi32>, tensor<?x2x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT:     nn.set_gradient @e, %3 : tensor<8x4xf32>
// CHECK-NEXT:     return
// CHECK-NEXT:   }
// CHECK:   func.func @forward(%arg0: tensor<?x2xi32>, %arg1: tensor<?x2xi32>, %arg2: tensor<?x2xi32>) -> (tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn = 0 : i64} {
// CHECK-NEXT:     %0 = nn.get_parameter @e : tensor<8x4xf32>
// CHECK-NEXT:     %1 = call @embed.forward(%arg0, %0) : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:     %2 = call @block.forward(%1) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
// CHECK-NEXT:     zero.send activation %2 to 1 : tensor<?x2x4xf32>
// CHECK-NEXT:     return %1 : tensor<?x2x4xf32>
// CHECK-NEXT:   }

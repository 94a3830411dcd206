// RUN: poplar-opt %s --split-input-file --pass-pipeline='builtin.module(zero-cut-stages,nn-differentiate,zero-split-turns)' | FileCheck %s
//
// What @backward reads of @forward is handed over; what was received stays where
// it is, and parameters are read again.

// CHECK-LABEL: module @first
// CHECK: func.func @evaluate{{.*}}attributes {zero.turn}
// CHECK: func.func @backward(%[[I:.*]]: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %[[S:.*]]: tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn}
// CHECK-NEXT: %[[D:.*]] = zero.receive gradient from 1
// CHECK-NEXT: %[[X:.*]] = call @block.backward(%[[S]], %[[D]])
// CHECK-NEXT: %[[G:.*]] = nn.get_gradient @e
// CHECK-NEXT: %[[N:.*]] = call @embed.backward(%[[I]], %[[X]], %[[G]])
// CHECK-NEXT: nn.set_gradient @e, %[[N]]
// CHECK-NEXT: return
// CHECK: func.func @forward({{.*}}) -> (tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn}
// CHECK: %[[E:.*]] = call @embed.forward
// CHECK: %[[B:.*]] = call @block.forward(%[[E]])
// CHECK: zero.send activation %[[B]] to 1
// CHECK: return %[[E]]
module @first attributes {zero.program = {device_type = "t", stage = 0 : i64, world_size = 2 : i64, group = 0 : i64, groups = 2 : i64}} {
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

// -----

// CHECK-LABEL: module @last
// CHECK: func.func @backward(%{{.*}}, %[[T:.*]]: tensor<?x2xi32>, %{{.*}}, %[[L:.*]]: tensor<?x2xf32>, %[[LSE:.*]]: tensor<?x2xf32> {zero.residual = 0 : i64}, %[[Y:.*]]: tensor<?x2x4xf32> {zero.residual = 1 : i64}, %[[X:.*]]: tensor<?x2x4xf32> {zero.received})
// CHECK-NEXT: %[[D:.*]] = call @loss.backward(%[[LSE]], %[[Y]], %[[T]], %[[L]])
// CHECK-NEXT: %[[DX:.*]] = call @block.backward(%[[X]], %[[D]])
// CHECK-NEXT: zero.send gradient %[[DX]] to 0
// CHECK-NEXT: return
// CHECK: func.func @forward(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32> {zero.residual = 0 : i64}, tensor<?x2x4xf32> {zero.residual = 1 : i64})
// CHECK: %[[X:.*]] = zero.receive activation from 0
// CHECK: %[[Y:.*]] = call @block.forward(%[[X]])
// CHECK: %[[L:.*]]:2 = call @loss.forward(%[[Y]]
// CHECK: return %[[L]]#0, %[[L]]#1, %[[Y]]
module @last attributes {zero.program = {device_type = "t", stage = 0 : i64, world_size = 2 : i64, group = 1 : i64, groups = 2 : i64}} {
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

// -----

// CHECK-LABEL: module @whole
// CHECK: func.func @train
// CHECK-NOT: zero.turn
module @whole {
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

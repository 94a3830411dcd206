// RUN: poplar-opt %s --split-input-file --pass-pipeline='builtin.module(zero-cut-stages,nn-differentiate,zero-split-turns)' | FileCheck %s
//
// What @backward reads of @forward is handed over; what was received stays where
// it is, and parameters are read again.

// CHECK-LABEL: module @first
// CHECK: func.func @evaluate{{.*}}attributes {zero.turn = 0 : i64}
// CHECK: func.func @backward(%[[I:.*]]: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %[[S:.*]]: tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn = 0 : i64}
// CHECK-NEXT: %[[D:.*]] = zero.receive gradient from 1
// CHECK-NEXT: %[[X:.*]] = call @block.backward(%[[S]], %[[D]])
// CHECK-NEXT: %[[G:.*]] = nn.get_gradient @e
// CHECK-NEXT: %[[N:.*]] = call @embed.backward(%[[I]], %[[X]], %[[G]])
// CHECK-NEXT: nn.set_gradient @e, %[[N]]
// CHECK-NEXT: return
// CHECK: func.func @forward({{.*}}) -> (tensor<?x2x4xf32> {zero.residual = 0 : i64}) attributes {zero.turn = 0 : i64}
// CHECK: %[[E:.*]] = call @embed.forward
// CHECK: %[[B:.*]] = call @block.forward(%[[E]])
// CHECK: zero.send activation %[[B]] to 1
// CHECK: return %[[E]]
module @first {
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
module @last {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
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

// -----

// A group of two chunks has functions for each. What both chunks add to the
// gradient of @e is added one after the other: the running sum is left where the
// next one finds it.

// CHECK-LABEL: module @firsts
// CHECK: func.func @evaluate.chunk0({{.*}}) attributes {zero.turn = 0 : i64}
// CHECK: call @embed(
// CHECK-NEXT: zero.send activation %{{.*}} to 1 :
// CHECK-NEXT: return
// CHECK: func.func @evaluate.chunk1({{.*}}) attributes {zero.turn = 1 : i64}
// CHECK: %[[X:.*]] = zero.receive activation from 1 :
// CHECK-NEXT: %[[Y:.*]] = call @block(%[[X]]
// CHECK-NEXT: zero.send activation %[[Y]] to 1 chunk 1
// CHECK: func.func @infer.chunk0
// CHECK: func.func @infer.chunk1
// CHECK: func.func @backward.chunk1({{.*}}) attributes {zero.turn = 1 : i64}
// CHECK-NEXT: %[[D:.*]] = zero.receive gradient from 1 chunk 1
// CHECK-NEXT: %[[G:.*]] = nn.get_gradient @e
// CHECK-NEXT: %[[S:.*]]:2 = call @block.backward({{.*}}%[[G]])
// CHECK-NEXT: nn.set_gradient @e, %[[S]]#1
// CHECK-NEXT: zero.send gradient %[[S]]#0 to 1 :
// CHECK-NEXT: return
// CHECK: func.func @forward.chunk1
// CHECK: zero.receive activation from 1 :
// CHECK: call @block.forward
// CHECK: zero.send activation %{{.*}} to 1 chunk 1
// CHECK: func.func @backward.chunk0({{.*}}) attributes {zero.turn = 0 : i64}
// CHECK-NEXT: %[[D:.*]] = zero.receive gradient from 1 :
// CHECK-NEXT: %[[G:.*]] = nn.get_gradient @e
// CHECK-NEXT: %[[S:.*]] = call @embed.backward({{.*}}, %[[D]], %[[G]])
// CHECK-NEXT: nn.set_gradient @e, %[[S]]
// CHECK-NEXT: return
// CHECK: func.func @forward.chunk0
// CHECK-NOT: zero.receive
// CHECK: zero.send activation %{{.*}} to 1 :
module @firsts {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<8x4xf32> zeros
  nn.parameter @f : tensor<8x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @block(%x: tensor<?x2x4xf32>, %ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %1 = nn.add %0, %x : tensor<?x2x4xf32>
    return %1 : tensor<?x2x4xf32>
  }
  func.func private @loss(%x: tensor<?x2x4xf32>, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
    return %loss : tensor<?x2xf32>
  }
  func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
    %w = nn.get_parameter @e : tensor<8x4xf32>
    %v = nn.get_parameter @f : tensor<8x4xf32>
    %0 = call @embed(%ids, %w) : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %1 = call @block(%0, %ids, %v) : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @block(%1, %ids, %w) : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %3 = call @loss(%2, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

// -----

// The loss, and what starts its backward pass, are the last chunk's.

// CHECK-LABEL: module @lasts
// CHECK: func.func @evaluate.chunk0(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) attributes
// CHECK: func.func @evaluate.chunk1(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) -> tensor<?x2xf32>
// CHECK: func.func @backward.chunk1({{.*}}, %[[L:.*]]: tensor<?x2xf32>, {{.*}})
// CHECK: %[[D:.*]] = call @loss.backward({{.*}}%[[L]])
// CHECK-NEXT: zero.send gradient %[[D]] to 0 chunk 1
// CHECK-NEXT: return
// CHECK: func.func @forward.chunk1({{.*}}) -> (tensor<?x2xf32>
// CHECK: func.func @backward.chunk0(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>)
// CHECK-NEXT: zero.receive gradient from 0 chunk 1
// CHECK: zero.send gradient %{{.*}} to 0 :
// CHECK: func.func @forward.chunk0(%{{.*}}) attributes
module @lasts {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<8x4xf32> zeros
  nn.parameter @f : tensor<8x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @block(%x: tensor<?x2x4xf32>, %ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %1 = nn.add %0, %x : tensor<?x2x4xf32>
    return %1 : tensor<?x2x4xf32>
  }
  func.func private @loss(%x: tensor<?x2x4xf32>, %targets: tensor<?x2xi32>) -> tensor<?x2xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> (tensor<?x2xf32>, tensor<?x2xf32>)
    return %loss : tensor<?x2xf32>
  }
  func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
    %w = nn.get_parameter @e : tensor<8x4xf32>
    %v = nn.get_parameter @f : tensor<8x4xf32>
    %0 = call @embed(%ids, %w) : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %1 = call @block(%0, %ids, %v) : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @block(%1, %ids, %w) : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    %3 = call @loss(%2, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

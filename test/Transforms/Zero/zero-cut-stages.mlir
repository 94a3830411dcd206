// RUN: poplar-opt %s --zero-cut-stages --split-input-file | FileCheck %s
//
// Units: 0 is in front of the blocks, 1 and 2 are blocks, 3 is behind them. A
// program without groups stays as it is.

// CHECK-LABEL: module @whole
// CHECK: call @embed
// CHECK: call @loss
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

// The first stage sends what it has instead of returning a loss. What the
// others need is gone.

// CHECK-LABEL: module @first
// CHECK-NOT: func.func private @block
// CHECK: func.func @model(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) {
// CHECK: %[[X:.*]] = call @embed
// CHECK-NOT: call
// CHECK: zero.send activation %[[X]] to 1 : tensor<?x2x4xf32>
// CHECK-NEXT: return
module @first {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 3 group 0 of 3
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 1] stage 0
    zero.group units [1, 3] stage 0
    zero.group units [3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 2 micro_batch 1 steps 2 last 1
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

// CHECK-LABEL: module @middle
// CHECK: nn.parameter @e
// CHECK: func.func @model
// CHECK-NEXT: %[[X:.*]] = zero.receive activation from 0 : tensor<?x2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = call @block(%[[X]])
// CHECK-NEXT: %[[Z:.*]] = call @block(%[[Y]])
// CHECK-NEXT: zero.send activation %[[Z]] to 2
// CHECK-NEXT: return
module @middle {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 3 group 1 of 3
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 1] stage 0
    zero.group units [1, 3] stage 0
    zero.group units [3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 2 micro_batch 1 steps 2 last 1
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
// CHECK: func.func @model(%{{.*}}: tensor<?x2xi32>, %[[T:.*]]: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) -> tensor<?x2xf32>
// CHECK-NEXT: %[[X:.*]] = zero.receive activation from 1
// CHECK-NEXT: %[[L:.*]] = call @loss(%[[X]], %[[T]])
// CHECK-NEXT: return %[[L]]
module @last {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 3 group 2 of 3
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 1] stage 0
    zero.group units [1, 3] stage 0
    zero.group units [3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 2 micro_batch 1 steps 2 last 1
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

// Groups of two chunks: the activations go from the last group to the second
// chunk of the first.

// CHECK-LABEL: module @firsts
// CHECK: func.func @model(%{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) {
// CHECK: %[[X:.*]] = call @embed
// CHECK-NEXT: zero.send activation %[[X]] to 1 : tensor<?x2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = zero.receive activation from 1 : tensor<?x2x4xf32>
// CHECK-NEXT: %[[Z:.*]] = call @block(%[[Y]])
// CHECK-NEXT: zero.send activation %[[Z]] to 1 chunk 1
// CHECK-NEXT: return
module @firsts {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
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

// CHECK-LABEL: module @lasts
// CHECK: func.func @model(%{{.*}}: tensor<?x2xi32>, %[[T:.*]]: tensor<?x2xi32>, %{{.*}}: tensor<?x2xi32>) -> tensor<?x2xf32>
// CHECK-NEXT: %[[X:.*]] = zero.receive activation from 0 : tensor<?x2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = call @block(%[[X]])
// CHECK-NEXT: zero.send activation %[[Y]] to 0 chunk 1
// CHECK-NEXT: %[[Z:.*]] = zero.receive activation from 0 chunk 1
// CHECK-NEXT: %[[L:.*]] = call @loss(%[[Z]], %[[T]])
// CHECK-NEXT: return %[[L]]
module @lasts {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
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

// Layers of two kinds, the first of which is called again behind the second.
// The second stage ends between unlike ones.

// CHECK-LABEL: module @unlike
// CHECK-NOT: func.func private @embed
// CHECK: func.func @model
// CHECK-NEXT: %[[X:.*]] = zero.receive activation from 0 : tensor<?x2x4xf32>
// CHECK-NEXT: %[[Y:.*]] = call @full(%[[X]])
// CHECK-NEXT: zero.send activation %[[Y]] to 2 : tensor<?x2x4xf32>
// CHECK-NEXT: return
module @unlike {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 3 group 1 of 3
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 3] stage 0
    zero.group units [3, 5] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 2 micro_batch 1 steps 2 last 1
  }
  nn.parameter @e : tensor<8x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<8x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @sliding(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.silu %x : tensor<?x2x4xf32>
    return %0 : tensor<?x2x4xf32>
  }
  func.func private @full(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
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
    %1 = call @sliding(%0) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @full(%1) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %3 = call @sliding(%2) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %4 = call @loss(%3, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %4 : tensor<?x2xf32>
  }
}

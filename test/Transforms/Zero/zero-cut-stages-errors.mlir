// RUN: poplar-opt %s --zero-cut-stages --split-input-file --verify-diagnostics

// expected-error @below {{has no function @model, or no zero.plan, to cut it by}}
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
  zero.plan stage 0 global_batch 1 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    // expected-error @below {{ends with unit 6, but the model has 4}}
    zero.group units [2, 7] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1
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

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
  zero.plan stage 0 global_batch 1 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 3] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1
  }
  // expected-error @below {{has no layers, between which it could be cut into stages: no unit that it calls returns activations of the type that it takes}}
  func.func @model(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) -> tensor<?x2xf32> {
    %0 = arith.sitofp %ids : tensor<?x2xi32> to tensor<?x2xf32>
    return %0 : tensor<?x2xf32>
  }
}

// -----

// What is in front of the blocks is read behind them, too.
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 1 of 2
  zero.plan stage 0 global_batch 1 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 1 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 1 last 1
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
    // expected-note @below {{the first value}}
    %1 = call @block(%0) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @block(%1) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    // expected-error @below {{reads a second value of the units before unit 2: a model can be cut where only the activations cross}}
    %4 = nn.add %2, %0 : tensor<?x2x4xf32>
    %3 = call @loss(%4, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

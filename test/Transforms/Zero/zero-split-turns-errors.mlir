// RUN: poplar-opt %s --zero-split-turns --split-input-file --verify-diagnostics

// expected-error @below {{has no function @train: run --nn-differentiate first}}
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
}

// -----

// A parameter that both chunks of a group use, outside of units: who adds to its
// gradient last is not known.
module @t.stage0.program {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 group 0 of 2 chunks 2
  zero.plan stage 0 global_batch 2 policy "stages" schedule "interleaved" {
    zero.group units [0, 1, 2, 3] stage 0
    zero.group units [1, 2, 3, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
  func.func @train(%ids: tensor<?x2xi32>, %targets: tensor<?x2xi32>, %keys: tensor<?x2xi32>) {
    %d = zero.receive gradient from 1 chunk 1 : tensor<?x2x4xf32>
    %g = nn.get_gradient @e : tensor<8x4xf32>
    // expected-note @below {{computed here}}
    %s = nn.embedding_grad %d, %ids into %g : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    %c = zero.receive gradient from 1 : tensor<?x2x4xf32>
    // expected-error @below {{reads what another chunk of the group computes backward; only gradients of parameters can be shared}}
    %t = nn.embedding_grad %c, %ids into %s : (tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    nn.set_gradient @e, %t : tensor<8x4xf32>
    return
  }
  nn.parameter @e : tensor<8x4xf32> zeros
}

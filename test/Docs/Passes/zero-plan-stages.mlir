// RUN: poplar-opt %s --zero-plan-stages="stages=fast@2+slow global-batch=4 micro-batch=1" | FileCheck %s

// @fast computes the embedding and the first block, @slow the rest.
module attributes {nn.model = {architecture = "tiny", num_layers = 2 : i64, seq_len = 2 : i64, vocab_size = 4 : i64, num_parameters = 16 : i64}} {
  cluster.device_type @fast target "cuda:sm_80" memory 100000 precision bf16
  cluster.device_type @slow target "cuda:sm_70" memory 100000 precision f32
  cluster.node @n devices [@fast, @slow]
  cluster.link inside nodes latency 1.0e-6 bandwidth 1.0e10
  nn.parameter @e : tensor<4x4xf32> zeros
  func.func private @embed(%ids: tensor<?x2xi32>, %w: tensor<4x4xf32> {nn.parameter}) -> tensor<?x2x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x2xi32>, tensor<4x4xf32>) -> tensor<?x2x4xf32>
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
    %w = nn.get_parameter @e : tensor<4x4xf32>
    %0 = call @embed(%ids, %w) : (tensor<?x2xi32>, tensor<4x4xf32>) -> tensor<?x2x4xf32>
    %1 = call @block(%0) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %2 = call @block(%1) : (tensor<?x2x4xf32>) -> tensor<?x2x4xf32>
    %3 = call @loss(%2, %targets) : (tensor<?x2x4xf32>, tensor<?x2xi32>) -> tensor<?x2xf32>
    return %3 : tensor<?x2xf32>
  }
}

// The result:
//
// CHECK:   zero.plan stage 0 global_batch 4 policy "stages" schedule "1f1b" {
// CHECK-NEXT:     zero.group units [0, 2] stage 0
// CHECK-NEXT:     zero.group units [2, 4] stage 0
// CHECK-NEXT:     zero.rank @fast node "n" micro_batch 1 steps 4 last 1
// CHECK-NEXT:     zero.rank @slow node "n" group 1 micro_batch 1 steps 4 last 1
// CHECK-NEXT:   }

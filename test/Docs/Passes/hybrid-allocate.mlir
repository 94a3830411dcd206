// RUN: poplar-opt %s --zero-form-buckets --hybrid-allocate="global-batch=4" | FileCheck %s

// So small a model takes no longer on one device than it would take to send its
// activations to another.
module attributes {nn.model = {architecture = "tiny", num_layers = 2 : i64, seq_len = 2 : i64, vocab_size = 4 : i64, num_parameters = 16 : i64}} {
  cluster.device_type @fast target "cuda:sm_80" memory 1000000000 precision f32 flops {f32 = 1.0e13} bandwidth 1.0e12
  cluster.device_type @slow target "cuda:sm_70" memory 1000000000 precision f32 flops {f32 = 5.0e12} bandwidth 1.0e12
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
// CHECK:   zero.plan stage 0 global_batch 4 policy "hybrid"{{.*}} attributes {lower_bound_seconds = {{.*}}, predicted_seconds = {{.*}}, simulated_seconds = {{.*}}} {
// CHECK-NEXT:     zero.rank @

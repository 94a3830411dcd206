// RUN: poplar-opt %s --zero-form-buckets --geo-allocate="global-batch=4" | FileCheck %s

// Over a link this slow, the fast device trains alone.
module attributes {nn.model = {architecture = "tiny", num_layers = 2 : i64, seq_len = 2 : i64, vocab_size = 4 : i64, num_parameters = 16 : i64}} {
  cluster.device_type @fast target "cuda:sm_80" memory 1000000000 precision f32 flops {f32 = 1.0e13} bandwidth 1.0e12
  cluster.device_type @slow target "cuda:sm_70" memory 1000000000 precision f32 flops {f32 = 5.0e12} bandwidth 1.0e12
  cluster.node @near devices [@fast]
  cluster.node @far devices [@slow]
  cluster.link between @near and @far latency 1.0e-2 bandwidth 1.0e8
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
// CHECK:   zero.plan stage {{[01]}} global_batch 4 policy "geo"{{.*}} attributes {lower_bound_seconds = {{.*}}, predicted_seconds = {{.*}}, simulated_seconds = {{.*}}} {
// CHECK-NEXT:     zero.rank @fast node "near"

// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s
// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// Two key heads of 3 columns, four value heads of 5.

// CHECK-LABEL: func.func @ops(
func.func @ops(%x: tensor<?x4x32xf32>, %w: tensor<32x1x4xf32>, %positions: tensor<?x4xi32>, %acc: tensor<32x1x4xf32>,
    %a: tensor<?x4x4xf32>, %log: tensor<4xf32>, %dy: tensor<?x4x20xf32>) {
  // CHECK: nn.causal_conv %{{.*}}, %{{.*}} : (tensor<?x4x32xf32>, tensor<32x1x4xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{row: 1024 FLOPs and 1024 bytes per sample, 512 bytes once}}
  %0 = nn.causal_conv %x, %w : (tensor<?x4x32xf32>, tensor<32x1x4xf32>) -> tensor<?x4x32xf32>
  // CHECK: nn.causal_conv %{{.*}}, %{{.*}} at %{{.*}} :
  // expected-remark @below {{row: 1024 FLOPs and 1040 bytes per sample, 512 bytes once}}
  %1 = nn.causal_conv %x, %w at %positions : (tensor<?x4x32xf32>, tensor<32x1x4xf32>, tensor<?x4xi32>) -> tensor<?x4x32xf32>
  // CHECK: nn.causal_conv_grad %{{.*}}, %{{.*}} at %{{.*}} :
  // expected-remark @below {{row: 1024 FLOPs and 1040 bytes per sample, 512 bytes once}}
  %2 = nn.causal_conv_grad %x, %w at %positions : (tensor<?x4x32xf32>, tensor<32x1x4xf32>, tensor<?x4xi32>) -> tensor<?x4x32xf32>
  // CHECK: nn.causal_conv_grad_weight %{{.*}}, %{{.*}} at %{{.*}} into %{{.*}} :
  // expected-remark @below {{row: 1024 FLOPs and 1040 bytes per sample, 1024 bytes once}}
  %3 = nn.causal_conv_grad_weight %x, %x at %positions into %acc : (tensor<?x4x32xf32>, tensor<?x4x32xf32>, tensor<?x4xi32>, tensor<32x1x4xf32>) -> tensor<32x1x4xf32>
  // CHECK: nn.gated_delta %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} key_heads 2 value_heads 4 :
  // expected-remark @below {{attention: 1680 FLOPs and 960 bytes per sample, 32 bytes once}}
  %4 = nn.gated_delta %x, %a, %a, %log, %log key_heads 2 value_heads 4 : (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x20xf32>
  // CHECK: nn.gated_delta {{.*}} at %{{.*}} key_heads 2 value_heads 4 :
  // expected-remark @below {{attention: 1680 FLOPs and 976 bytes per sample, 32 bytes once}}
  %5 = nn.gated_delta %x, %a, %a, %log, %log at %positions key_heads 2 value_heads 4 : (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x4xi32>) -> tensor<?x4x20xf32>
  // Chunks of 2 tokens: four states of 3 x 16 and 4 x 2 x 3 gradients a head.
  // CHECK: nn.gated_delta_grad {{.*}} key_heads 2 value_heads 4 :
  // expected-remark @below {{attention: 7200 FLOPs}}
  %6:5 = nn.gated_delta_grad %dy, %x, %a, %a, %log, %log key_heads 2 value_heads 4 : (tensor<?x4x20xf32>, tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x864xf32>)
  // CHECK: nn.sigmoid %{{.*}} : tensor<?x4x20xf32>
  // expected-remark @below {{row: 240 FLOPs and 640 bytes per sample, 0 bytes once}}
  %7 = nn.sigmoid %dy : tensor<?x4x20xf32>
  // CHECK: nn.sigmoid_grad %{{.*}}, %{{.*}} : tensor<?x4x20xf32>
  // expected-remark @below {{row: 240 FLOPs and 960 bytes per sample, 0 bytes once}}
  %8 = nn.sigmoid_grad %dy, %7 : tensor<?x4x20xf32>
  return
}

func.func @model() {
  return
}

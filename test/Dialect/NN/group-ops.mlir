// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s
// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// Two of three experts for each of four tokens: products of the experts that
// tokens go to, bytes of the weights of all.

// CHECK-LABEL: func.func @ops(
func.func @ops(%logits: tensor<?x4x3xf32>, %x: tensor<?x4x8xf32>, %wide: tensor<?x4x32xf32>,
    %w: tensor<16x8xf32>, %y: tensor<?x4x12xf32>, %acc: tensor<16x8xf32>, %logit: tensor<?x4x1xf32>) {
  // CHECK: nn.regroup %{{.*}} groups 2 parts 3 : tensor<?x4x12xf32>
  // expected-remark @below {{row: 0 FLOPs and 384 bytes per sample, 0 bytes once}}
  %regrouped = nn.regroup %y groups 2 parts 3 : tensor<?x4x12xf32>
  // CHECK: nn.regroup_parts %{{.*}} groups 2 widths [1, 3, 2] : tensor<?x4x12xf32>
  // expected-remark @below {{row: 0 FLOPs and 384 bytes per sample, 0 bytes once}}
  %parts = nn.regroup_parts %y groups 2 widths [1, 3, 2] : tensor<?x4x12xf32>
  // CHECK: nn.regroup_parts %{{.*}} groups 2 widths [1, 3, 2] inverse : tensor<?x4x12xf32>
  // expected-remark @below {{row: 0 FLOPs and 384 bytes per sample, 0 bytes once}}
  %back = nn.regroup_parts %parts groups 2 widths [1, 3, 2] inverse : tensor<?x4x12xf32>
  // CHECK: nn.route %{{.*}} top_k 2 normalized : (tensor<?x4x3xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  // expected-remark @below {{row: 24 FLOPs and 112 bytes per sample, 0 bytes once}}
  %scores, %experts = nn.route %logits top_k 2 normalized : (tensor<?x4x3xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  // CHECK: nn.route_grad %{{.*}} scores %{{.*}} experts %{{.*}} logits %{{.*}} normalized :
  // expected-remark @below {{row: 36 FLOPs and 192 bytes per sample, 0 bytes once}}
  %0 = nn.route_grad %scores scores %scores experts %experts logits %logits normalized
      : (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xi32>, tensor<?x4x3xf32>) -> tensor<?x4x3xf32>
  // A row for each expert of a token.
  // CHECK: nn.expert_linear %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{gemm: 2048 FLOPs and 672 bytes per sample, 1536 bytes once}}
  %1 = nn.expert_linear %x, %experts, %w, %w, %w : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<?x4x32xf32>
  // The sum of them.
  // CHECK: nn.expert_linear {{.*}} layout in_out :
  // expected-remark @below {{gemm: 2048 FLOPs and 672 bytes per sample, 1536 bytes once}}
  %2 = nn.expert_linear %wide, %experts, %w, %w, %w layout in_out : (tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.expert_linear_grad_weight {{.*}} into %{{.*}}, %{{.*}}, %{{.*}} :
  // expected-remark @below {{gemm: 2048 FLOPs and 672 bytes per sample, 3072 bytes once}}
  %3:3 = nn.expert_linear_grad_weight %wide, %x, %experts into %acc, %acc, %acc : (tensor<?x4x32xf32>, tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>) -> (tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>)
  // CHECK: nn.weigh %{{.*}}, %{{.*}} : (tensor<?x4x32xf32>, tensor<?x8xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{row: 128 FLOPs and 1056 bytes per sample, 0 bytes once}}
  %4 = nn.weigh %wide, %scores : (tensor<?x4x32xf32>, tensor<?x8xf32>) -> tensor<?x4x32xf32>
  // CHECK: nn.weigh_grad %{{.*}}, %{{.*}} : (tensor<?x4x32xf32>, tensor<?x4x32xf32>) -> tensor<?x8xf32>
  // expected-remark @below {{row: 256 FLOPs and 1056 bytes per sample, 0 bytes once}}
  %5 = nn.weigh_grad %wide, %wide : (tensor<?x4x32xf32>, tensor<?x4x32xf32>) -> tensor<?x8xf32>
  // CHECK: nn.score %{{.*}} : (tensor<?x4x1xf32>) -> tensor<?x4xf32>
  // expected-remark @below {{row: 12 FLOPs and 32 bytes per sample, 0 bytes once}}
  %6 = nn.score %logit : (tensor<?x4x1xf32>) -> tensor<?x4xf32>
  // CHECK: nn.score_grad %{{.*}}, %{{.*}} : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x1xf32>
  // expected-remark @below {{row: 12 FLOPs and 48 bytes per sample, 0 bytes once}}
  %7 = nn.score_grad %6, %6 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x1xf32>
  return
}

func.func @model() {
  return
}

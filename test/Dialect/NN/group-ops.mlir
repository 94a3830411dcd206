// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s
// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// Two of three experts for each of four tokens: products of the experts that
// tokens go to, bytes of the weights of all.

// CHECK-LABEL: func.func @ops(
func.func @ops(%logits: tensor<?x4x3xf32>, %x: tensor<?x4x8xf32>, %wide: tensor<?x4x32xf32>,
    %w: tensor<16x8xf32>, %y: tensor<?x4x12xf32>, %acc: tensor<16x8xf32>, %logit: tensor<?x4x1xf32>,
    %bias: tensor<3x8xf32>) {
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
  // CHECK: nn.route %{{.*}} bias %{{.*}} top_k 2 groups 4 top_groups 2 sigmoid normalized : (tensor<?x4x8xf32>, tensor<3x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  // expected-remark @below {{row: 64 FLOPs and 192 bytes per sample, 96 bytes once}}
  %biased:2 = nn.route %x bias %bias top_k 2 groups 4 top_groups 2 sigmoid normalized : (tensor<?x4x8xf32>, tensor<3x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  // CHECK: nn.route_grad %{{.*}} logits %{{.*}} sigmoid normalized :
  // expected-remark @below {{row: 36 FLOPs and 192 bytes per sample, 0 bytes once}}
  %ofsigmoid = nn.route_grad %scores scores %scores experts %experts logits %logits sigmoid normalized
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

// CHECK-LABEL: func.func @stacks(
func.func @stacks(%x: tensor<?x4x8xf32>, %wide: tensor<?x4x32xf32>, %scores: tensor<?x8xf32>, %experts: tensor<?x8xi32>,
    %w: tensor<3x8x16xf32>, %bias: tensor<3x16xf32>, %lse: tensor<?x2x4xf32>, %sinks: tensor<2xf32>) {
  // CHECK: nn.expert_linear %{{.*}}, %{{.*}}, %{{.*}} layout in_out : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<3x8x16xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{gemm: 2048 FLOPs and 672 bytes per sample, 1536 bytes once}}
  %0 = nn.expert_linear %x, %experts, %w layout in_out : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<3x8x16xf32>) -> tensor<?x4x32xf32>
  // CHECK: nn.expert_linear_grad_weight %{{.*}}, %{{.*}}, %{{.*}} into %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x8x16xf32>) -> tensor<3x8x16xf32>
  // expected-remark @below {{gemm: 2048 FLOPs and 672 bytes per sample, 3072 bytes once}}
  %1 = nn.expert_linear_grad_weight %x, %wide, %experts into %w : (tensor<?x4x8xf32>, tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x8x16xf32>) -> tensor<3x8x16xf32>
  // CHECK: nn.expert_bias %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{row: 128 FLOPs and 1056 bytes per sample, 192 bytes once}}
  %2 = nn.expert_bias %wide, %experts, %bias : (tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<?x4x32xf32>
  // CHECK: nn.expert_bias_grad %{{.*}}, %{{.*}} into %{{.*}} : (tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<3x16xf32>
  // expected-remark @below {{row: 128 FLOPs and 544 bytes per sample, 384 bytes once}}
  %3 = nn.expert_bias_grad %wide, %experts into %bias : (tensor<?x4x32xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<3x16xf32>
  // CHECK: nn.spread_scores %{{.*}}, %{{.*}} : (tensor<?x8xf32>, tensor<?x8xi32>) -> tensor<?x4x3xf32>
  // expected-remark @below {{row: 0 FLOPs and 112 bytes per sample, 0 bytes once}}
  %4 = nn.spread_scores %scores, %experts : (tensor<?x8xf32>, tensor<?x8xi32>) -> tensor<?x4x3xf32>
  // CHECK: nn.spread_scores_grad %{{.*}}, %{{.*}} : (tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
  // expected-remark @below {{row: 0 FLOPs and 112 bytes per sample, 0 bytes once}}
  %5 = nn.spread_scores_grad %4, %experts : (tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
  // CHECK: nn.clamped_glu %{{.*}} alpha 1.702000e+00 limit 7.000000e+00 : (tensor<?x4x32xf32>) -> tensor<?x4x16xf32>
  // expected-remark @below {{row: 512 FLOPs and 768 bytes per sample, 0 bytes once}}
  %6 = nn.clamped_glu %wide alpha 1.702 limit 7.0 : (tensor<?x4x32xf32>) -> tensor<?x4x16xf32>
  // CHECK: nn.clamped_glu_grad %{{.*}}, %{{.*}} alpha 1.702000e+00 limit 7.000000e+00 : (tensor<?x4x16xf32>, tensor<?x4x32xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{row: 1024 FLOPs and 1280 bytes per sample, 0 bytes once}}
  %7 = nn.clamped_glu_grad %6, %wide alpha 1.702 limit 7.0 : (tensor<?x4x16xf32>, tensor<?x4x32xf32>) -> tensor<?x4x32xf32>
  // CHECK: nn.sink_grad %{{.*}}, %{{.*}} lse %{{.*}} sinks %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  // expected-remark @below {{row: 64 FLOPs and 320 bytes per sample, 8 bytes once}}
  %8 = nn.sink_grad %x, %x lse %lse sinks %sinks : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  return
}

func.func @model() {
  return
}

// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s
// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// The loss that balances experts.
func.func @model(%x: tensor<?x4x8xf32>, %logits: tensor<?x4x3xf32>, %experts: tensor<?x8xi32>,
                   %loss: tensor<?x4xf32>, %targets: tensor<?x4xi32>) {
  // CHECK: nn.join %{{.*}} : (tensor<?x4x8xf32>) -> tensor<?x4x14xf32>
  // expected-remark @below {{row: 0 FLOPs and 352 bytes per sample, 0 bytes once}}
  %wide = nn.join %x : (tensor<?x4x8xf32>) -> tensor<?x4x14xf32>
  // expected-remark @below {{row: 0 FLOPs and 192 bytes per sample, 0 bytes once}}
  %sums = nn.slice %wide offset 8 : (tensor<?x4x14xf32>) -> tensor<?x4x6xf32>
  // CHECK: nn.count_experts %{{.*}}, %{{.*}}, %{{.*}} : (tensor<?x4x6xf32>, tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x4x6xf32>
  // expected-remark @below {{row: 72 FLOPs and 272 bytes per sample, 0 bytes once}}
  %more = nn.count_experts %sums, %logits, %experts : (tensor<?x4x6xf32>, tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x4x6xf32>
  // CHECK: nn.count_experts_grad %{{.*}}, %{{.*}} : (tensor<?x4x6xf32>, tensor<?x4x3xf32>) -> tensor<?x4x3xf32>
  // expected-remark @below {{row: 72 FLOPs and 192 bytes per sample, 0 bytes once}}
  %d = nn.count_experts_grad %more, %logits : (tensor<?x4x6xf32>, tensor<?x4x3xf32>) -> tensor<?x4x3xf32>
  // CHECK: nn.join %{{.*}}, %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x6xf32>) -> tensor<?x4x14xf32>
  // expected-remark @below {{row: 0 FLOPs and 448 bytes per sample, 0 bytes once}}
  %both = nn.join %x, %more : (tensor<?x4x8xf32>, tensor<?x4x6xf32>) -> tensor<?x4x14xf32>
  // CHECK: nn.balance_loss %{{.*}}, %{{.*}}, %{{.*}} factor 1.000000e-02 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  // expected-remark @below {{row: 24 FLOPs and 144 bytes per sample, 0 bytes once}}
  %all = nn.balance_loss %loss, %targets, %more factor 1.0e-02 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  // CHECK: nn.balance_loss_grad %{{.*}}, %{{.*}}, %{{.*}} factor 1.000000e-02 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  // expected-remark @below {{row: 48 FLOPs and 240 bytes per sample, 0 bytes once}}
  %dloss, %dsums = nn.balance_loss_grad %all, %targets, %more factor 1.0e-02 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  return
}

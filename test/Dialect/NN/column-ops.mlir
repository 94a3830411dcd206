// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s
// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// Ops that move or scale columns, norms of heads, partial rotations, caps: they
// print as they are parsed, and cost what was counted by hand.

// CHECK-LABEL: func.func @ops(
func.func @ops(%x: tensor<?x4x8xf32>, %y: tensor<?x4x12xf32>, %g: tensor<4xf32>, %r: tensor<?x8xf32>, %lse: tensor<?x2x4xf32>) {
  // 128 bytes in, 128 out.
  // CHECK: nn.scale %{{.*}} factor 3.000000e+00 : tensor<?x4x8xf32>
  // expected-remark @below {{row: 32 FLOPs and 256 bytes per sample, 0 bytes once}}
  %0 = nn.scale %x factor 3.0 : tensor<?x4x8xf32>
  // CHECK: nn.softcap %{{.*}} cap 3.000000e+01 : tensor<?x4x8xf32>
  // expected-remark @below {{row: 96 FLOPs and 256 bytes per sample, 0 bytes once}}
  %1 = nn.softcap %x cap 30.0 : tensor<?x4x8xf32>
  // CHECK: nn.softcap_grad
  // expected-remark @below {{row: 128 FLOPs and 384 bytes per sample, 0 bytes once}}
  %2 = nn.softcap_grad %x, %1 cap 30.0 : tensor<?x4x8xf32>
  // Only the columns that are taken are read.
  // CHECK: nn.slice %{{.*}} offset 4 : (tensor<?x4x12xf32>) -> tensor<?x4x8xf32>
  // expected-remark @below {{row: 0 FLOPs and 256 bytes per sample, 0 bytes once}}
  %3 = nn.slice %y offset 4 : (tensor<?x4x12xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.slice_grad %{{.*}} offset 4 : (tensor<?x4x8xf32>) -> tensor<?x4x12xf32>
  // expected-remark @below {{row: 0 FLOPs and 320 bytes per sample, 0 bytes once}}
  %4 = nn.slice_grad %x offset 4 : (tensor<?x4x8xf32>) -> tensor<?x4x12xf32>
  // Two heads of four columns: a statistic for each of them.
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} eps 1.000000e-05 heads 2 offset 1.000000e+00 : (tensor<?x4x8xf32>, tensor<4xf32>) -> (tensor<?x4x8xf32>, tensor<?x8xf32>)
  // expected-remark @below {{row: 128 FLOPs and 288 bytes per sample, 16 bytes once}}
  %6:2 = nn.rms_norm %x, %g eps 1.0e-5 heads 2 offset 1.0 : (tensor<?x4x8xf32>, tensor<4xf32>) -> (tensor<?x4x8xf32>, tensor<?x8xf32>)
  // CHECK: nn.rms_norm_grad %{{.*}} rstd %{{.*}} heads 2 offset 1.000000e+00 :
  // expected-remark @below {{row: 256 FLOPs and 416 bytes per sample, 16 bytes once}}
  %7 = nn.rms_norm_grad %x, %x, %g rstd %r heads 2 offset 1.0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<4xf32>, tensor<?x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.norm_grad_gamma %{{.*}} rstd %{{.*}} into %{{.*}} heads 2 :
  // expected-remark @below {{row: 128 FLOPs and 288 bytes per sample, 32 bytes once}}
  %8 = nn.norm_grad_gamma %x, %x rstd %r into %g heads 2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x8xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK: nn.rope %{{.*}} head_dim 4 inv_freq [1.000000e+00] scale 2.000000e+00 heads 2 : tensor<?x4x12xf32>
  // expected-remark @below {{row: 144 FLOPs and 384 bytes per sample, 0 bytes once}}
  %9 = nn.rope %y head_dim 4 inv_freq [1.0] scale 2.0 heads 2 : tensor<?x4x12xf32>
  // CHECK: nn.attention %{{.*}} causal heads 2 kv_heads 2 scale 5.000000e-01 cap 5.000000e+01 :
  // expected-remark @below {{attention: 320 FLOPs and 544 bytes per sample, 0 bytes once}}
  %10:2 = nn.attention %x, %x, %x causal heads 2 kv_heads 2 scale 0.5 cap 50.0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

func.func @model() {
  return
}

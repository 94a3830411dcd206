// RUN: poplar-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: exec.function unit @forward(
exec.function unit @forward(%x: memref<?x4x32xf32>, %w: memref<32x1x4xf32>, %at: memref<?x4xi32>, %a: memref<?x4x4xf32>,
    %log: memref<4xf32>, %y: memref<?x4x20xf32>, %cache: memref<?x3x32xf32>, %state: memref<?x4x3x5xf32>) scratch 0 {
  // CHECK: exec.causal_conv %{{.*}}, %{{.*}} into %{{.*}} : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4x32xf32>)
  exec.causal_conv %x, %w into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4x32xf32>)
  // CHECK: exec.causal_conv %{{.*}}, %{{.*}} at %{{.*}} cache %{{.*}} into %{{.*}} :
  exec.causal_conv %x, %w at %at cache %cache into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4xi32>, memref<?x3x32xf32>, memref<?x4x32xf32>)
  // CHECK: exec.gated_delta {{.*}} into %{{.*}} key_heads 2 value_heads 4 :
  exec.gated_delta %x, %a, %a, %log, %log into %y key_heads 2 value_heads 4 : (memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4x20xf32>)
  // CHECK: exec.gated_delta {{.*}} at %{{.*}} state %{{.*}} into %{{.*}} key_heads 2 value_heads 4 :
  exec.gated_delta %x, %a, %a, %log, %log at %at state %state into %y key_heads 2 value_heads 4 : (memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4xi32>, memref<?x4x3x5xf32>, memref<?x4x20xf32>)
  exec.return
}

// CHECK-LABEL: exec.function unit @backward(
exec.function unit @backward(%x: memref<?x4x32xf32>, %w: memref<32x1x4xf32>, %at: memref<?x4xi32>, %a: memref<?x4x4xf32>,
    %log: memref<4xf32>, %dy: memref<?x4x20xf32>, %scratch: memref<?x864xf32>) scratch 0 {
  // CHECK: exec.causal_conv_grad %{{.*}}, %{{.*}} at %{{.*}} into %{{.*}} :
  exec.causal_conv_grad %x, %w at %at into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4xi32>, memref<?x4x32xf32>)
  // CHECK: exec.causal_conv_grad_weight %{{.*}}, %{{.*}} into %{{.*}} :
  exec.causal_conv_grad_weight %x, %x into %w : (memref<?x4x32xf32>, memref<?x4x32xf32>, memref<32x1x4xf32>)
  // CHECK: exec.gated_delta_grad {{.*}} into %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} scratch %{{.*}} key_heads 2 value_heads 4 :
  exec.gated_delta_grad %dy, %x, %a, %a, %log, %log into %x, %a, %a, %a scratch %scratch key_heads 2 value_heads 4 : (memref<?x4x20xf32>, memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<?x864xf32>)
  exec.return
}

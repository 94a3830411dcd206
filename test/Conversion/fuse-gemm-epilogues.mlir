// RUN: poplar-opt %s --fuse-gemm-epilogues | FileCheck %s

// Forward: what went into GELU is kept where somebody reads it.
// CHECK-LABEL: func @forward
// CHECK: %[[Y:.*]], %[[H:.*]] = nn.linear_gelu %{{.*}}, %{{.*}} bias %{{.*}} layout in_out
// CHECK-NOT: nn.gelu
// CHECK: return %[[Y]], %[[H]]
func.func @forward(%x: tensor<?x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> (tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b layout in_out : (tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x16xf32>
  return %y, %h : tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// CHECK-LABEL: func @evaluate
// CHECK: %[[Y:.*]] = nn.linear_gelu %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
// CHECK-NEXT: return %[[Y]]
func.func @evaluate(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<?x4x16xf32> {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// CHECK-LABEL: func @backward
// CHECK: nn.linear_gelu_grad %{{.*}}, %{{.*}} pre %{{.*}}
// CHECK-NOT: nn.gelu_grad
func.func @backward(%dy: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %h: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> {
  %d = nn.linear %dy, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %h form tanh : tensor<?x4x16xf32>
  return %g : tensor<?x4x16xf32>
}

// GELU by erf is another function.
// CHECK-LABEL: func @erf
// CHECK: nn.linear {{.*}} bias
// CHECK: nn.gelu
// CHECK: nn.linear
// CHECK: nn.gelu_grad
func.func @erf(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %dy: tensor<?x4x8xf32>) -> (tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form erf : tensor<?x4x16xf32>
  %d = nn.linear %dy, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %h form erf : tensor<?x4x16xf32>
  return %y, %g : tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// Neither the product of a gradient that others read, nor rows that the library
// does not take.
// CHECK-LABEL: func @others
// CHECK: nn.linear {{.*}} bias
// CHECK: nn.gelu
// CHECK: nn.linear
// CHECK: nn.gelu_grad
func.func @others(%x: tensor<?x4x8xf32>, %w: tensor<12x8xf32>, %b: tensor<12xf32>, %u: tensor<16x8xf32>, %p: tensor<?x4x16xf32>) -> (tensor<?x4x12xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<12x8xf32>, tensor<12xf32>) -> tensor<?x4x12xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x12xf32>
  %d = nn.linear %x, %u : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %p form tanh : tensor<?x4x16xf32>
  return %y, %d, %g : tensor<?x4x12xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

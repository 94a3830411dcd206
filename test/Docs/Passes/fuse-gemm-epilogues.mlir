// RUN: poplar-opt %s --fuse-gemm-epilogues | FileCheck %s

func.func @forward(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<?x4x16xf32> {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// The result:
//
// CHECK:   func.func @forward(%arg0: tensor<?x4x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<16xf32>) -> tensor<?x4x16xf32> {
// CHECK-NEXT:     %result = nn.linear_gelu %arg0, %arg1 bias %arg2 : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
// CHECK-NEXT:     return %result : tensor<?x4x16xf32>
// CHECK-NEXT:   }

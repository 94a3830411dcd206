// RUN: poplar-opt %s --merge-unit-results | FileCheck %s

func.func @forward(%x: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
  %0 = nn.silu %x : tensor<?x4x8xf32>
  return %0, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   func.func @forward(%arg0: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.silu %arg0 : tensor<?x4x8xf32>
// CHECK-NEXT:     return %0 : tensor<?x4x8xf32>
// CHECK-NEXT:   }

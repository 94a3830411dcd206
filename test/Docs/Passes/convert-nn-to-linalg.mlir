// RUN: poplar-opt %s --convert-nn-to-linalg | FileCheck %s

func.func @add(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.add %x, %y : tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   func.func @add(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
// CHECK:     %0 = tensor.empty(%dim) : tensor<?x4x8xf32>
// CHECK:     %1 = linalg.generic {{.*}} ins(%arg0, %arg1 : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%0 : tensor<?x4x8xf32>) {
// CHECK-NEXT:     ^bb0(%in: f32, %in_0: f32, %out: f32):
// CHECK-NEXT:       %2 = arith.addf %in, %in_0 : f32
// CHECK-NEXT:       linalg.yield %2 : f32
// CHECK-NEXT:     } -> tensor<?x4x8xf32>

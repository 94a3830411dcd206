// RUN: poplar-opt %s --convert-nn-to-linalg --form-kernels | FileCheck %s

// Two ops that share their rows become one kernel.
func.func @unit(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.add %x, %y : tensor<?x4x8xf32>
  %1 = nn.silu %0 : tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   func.func @unit(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
// CHECK-NEXT:     %0:2 = exec.dispatch @kernel_0_add_silu(%arg0, %arg1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>)
// CHECK-NEXT:     return %0#1 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK:   exec.kernel @kernel_0_add_silu(%arg0: tensor<?x4x8xf32>, %arg1: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) rows 4 per_sample {{.*}} {

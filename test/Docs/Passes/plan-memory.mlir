// RUN: poplar-opt %s --convert-nn-to-linalg --form-kernels --plan-memory | FileCheck %s

// The product writes to a buffer in the scratch of the unit, and the kernel to the
// buffer that the caller gives.
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w]
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.silu %0 : tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   exec.arena fixed {{.*}} per_sample {{.*}}
// CHECK:   exec.function unit @block(%arg0: memref<?x4x8xf32>, %arg1: memref<8x8xf32>, %arg2: memref<?x4x8xf32>) scratch 128 {
// CHECK-NEXT:     %0 = exec.buffer scratch at 0 : memref<?x4x8xf32>
// CHECK-NEXT:     exec.product %arg0, %arg1 into %0 trans_b : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
// CHECK-NEXT:     exec.dispatch @kernel_0_silu(%0, %arg2) : (memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
// CHECK-NEXT:     exec.end %0 : memref<?x4x8xf32>
// CHECK-NEXT:     exec.return
// CHECK-NEXT:   }
// CHECK:   exec.function step @infer() inputs <ids = 0> result 128 : memref<?x4x8xf32> {
// CHECK-NEXT:     %0 = exec.buffer batch at 0 : memref<?x4x8xf32>
// CHECK-NEXT:     %1 = exec.buffer fixed at 0 : memref<8x8xf32>
// CHECK-NEXT:     %2 = exec.buffer batch at 128 : memref<?x4x8xf32>
// CHECK-NEXT:     %3 = exec.buffer batch at 256 : memref<?x128xi8>
// CHECK-NEXT:     exec.call @block(%0, %1, %2) scratch %3 : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>, memref<?x128xi8>)
// CHECK-NEXT:     exec.end %3 : memref<?x128xi8>
// CHECK-NEXT:     exec.return
// CHECK-NEXT:   }
// CHECK-NEXT:   exec.entry infer @infer

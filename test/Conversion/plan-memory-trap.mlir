// RUN: poplar-opt %s --plan-memory=trap-dead-ranges | FileCheck %s

// With each op, the buffers that nobody reads after it: pairs of offset and
// bytes per sample. What the function returns outlives it.

// CHECK-LABEL: func @infer
// CHECK: nn.linear {{.*}}nn.offsets = array<i64: [[A:[0-9]+]]>}
// CHECK: nn.linear {{.*}}nn.dead = array<i64: [[A]], 128>, nn.offsets = array<i64: [[B:[0-9]+]]>}
// CHECK: nn.linear {{.*}}nn.dead = array<i64: [[B]], 128>
// CHECK-NOT: nn.dead
// CHECK: return
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.linear %1, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @bucket [@w]

// RUN: poplar-opt %s --merge-unit-results | FileCheck %s

// Callers read the first of equal results; results behind them keep their order.
// CHECK-LABEL: func.func private @block.forward(
// CHECK-SAME: -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>)
// CHECK: return %{{.*}}, %[[STATISTIC:.*]], %{{.*}} : tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>
func.func private @block.forward(%x: tensor<?x4x8xf32>, %s: tensor<?x4xf32>, %w: tensor<16x8xf32>)
    -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>) attributes {nn.unit} {
  %y = nn.silu %x : tensor<?x4x8xf32>
  %sum = nn.add %s, %s : tensor<?x4xf32>
  %wide = nn.linear %y, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %y, %sum, %sum, %wide, %sum : tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>
}

// A unit whose results differ stays as it is.
// CHECK-LABEL: func.func private @other(
// CHECK: return %{{.*}}, %{{.*}} : tensor<?x4x8xf32>, tensor<?x4x8xf32>
func.func private @other(%x: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
  %0 = nn.silu %x : tensor<?x4x8xf32>
  %1 = nn.relu %x : tensor<?x4x8xf32>
  return %0, %1 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func @train(
// CHECK: %[[CALL:.*]]:3 = call @block.forward(
// CHECK: nn.add %[[CALL]]#1, %[[CALL]]#1
// CHECK: return %[[CALL]]#2, %{{.*}} : tensor<?x4x16xf32>, tensor<?x4xf32>
func.func @train(%x: tensor<?x4x8xf32>, %s: tensor<?x4xf32>, %w: tensor<16x8xf32>) -> (tensor<?x4x16xf32>, tensor<?x4xf32>) {
  %0:5 = call @block.forward(%x, %s, %w) : (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<16x8xf32>)
      -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x4x16xf32>, tensor<?x4xf32>)
  %1 = nn.add %0#2, %0#4 : tensor<?x4xf32>
  return %0#3, %1 : tensor<?x4x16xf32>, tensor<?x4xf32>
}

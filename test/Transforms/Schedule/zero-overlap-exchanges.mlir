// RUN: poplar-opt --zero-overlap-exchanges %s | FileCheck %s

// Both products of what is gathered come before the wait, which comes before the
// first that reads all rows of one; what the unit returns lies where it arrives. A
// product that is scattered keeps what it reads.

// CHECK-LABEL: func.func private @block(
// CHECK-SAME: %[[X:.*]]: tensor<?x2x4xf32>, %[[GATE:.*]]: tensor<2x4xf32> {nn.parameter}, %[[UP:.*]]: tensor<2x4xf32> {nn.parameter}
// CHECK-NEXT: %[[ALL:.*]] = zero.start_exchange gather_tokens %[[X]] bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
// CHECK-NEXT: %[[G:.*]] = nn.linear %[[ALL]], %[[GATE]]
// CHECK-NEXT: nn.linear %[[ALL]], %[[UP]]
// CHECK-NEXT: zero.wait_exchange %[[ALL]] of %[[X]] : tensor<?x8x4xf32> of tensor<?x2x4xf32> -> tensor<?x8x4xf32>
// CHECK-NEXT: nn.silu %[[G]]
// CHECK-NEXT: %[[H:.*]] = nn.mul
// CHECK-NEXT: %[[D:.*]] = nn.linear %[[H]],
// CHECK-NEXT: %[[P:.*]]:2 = zero.start_exchange scatter_tokens %[[D]] keep %[[H]] bounds [0, 6, 8] position 1
// CHECK-NEXT: %[[Q:.*]]:2 = zero.wait_exchange %[[P]]#0, %[[P]]#1 of %[[D]]
// CHECK-NEXT: %[[MINE:.*]] = zero.sum_exchange %[[Q]]#0, %[[Q]]#1
// CHECK-NEXT: nn.add %[[X]], %[[MINE]]
// CHECK-NEXT: return %{{.*}}, %[[ALL]]
func.func private @block(%x: tensor<?x2x4xf32>, %gate: tensor<2x4xf32> {nn.parameter}, %up: tensor<2x4xf32> {nn.parameter}, %down: tensor<4x2xf32> {nn.parameter}) -> (tensor<?x2x4xf32>, tensor<?x8x4xf32>) attributes {nn.unit} {
  %all = zero.gather_tokens %x bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  %0 = nn.linear %all, %gate : (tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<?x8x2xf32>
  %1 = nn.silu %0 : tensor<?x8x2xf32>
  %2 = nn.linear %all, %up : (tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<?x8x2xf32>
  %3 = nn.mul %1, %2 : tensor<?x8x2xf32>
  %4 = nn.linear %3, %down : (tensor<?x8x2xf32>, tensor<4x2xf32>) -> tensor<?x8x4xf32>
  %mine = zero.scatter_tokens %4 bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  %5 = nn.add %x, %mine : tensor<?x2x4xf32>
  return %5, %all : tensor<?x2x4xf32>, tensor<?x8x4xf32>
}

// The gradient of the weight is computed meanwhile, wherever it stood.

// CHECK-LABEL: func.func private @gradients(
// CHECK: %[[DX:.*]] = nn.linear
// CHECK-NEXT: zero.start_exchange scatter_tokens %[[DX]]
// CHECK-NEXT: nn.linear_grad_weight
// CHECK-NEXT: nn.linear_grad_weight
// CHECK-NEXT: zero.wait_exchange
// CHECK-NEXT: zero.sum_exchange
// CHECK-NEXT: return
func.func private @gradients(%dy: tensor<?x8x2xf32>, %x: tensor<?x8x4xf32>, %w: tensor<2x4xf32> {nn.parameter}, %a: tensor<2x4xf32> {nn.gradient}, %b: tensor<2x4xf32> {nn.gradient}) -> (tensor<?x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) attributes {nn.unit} {
  %0 = nn.linear_grad_weight %dy, %x into %a : (tensor<?x8x2xf32>, tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = nn.linear %dy, %w layout in_out : (tensor<?x8x2xf32>, tensor<2x4xf32>) -> tensor<?x8x4xf32>
  %2 = nn.linear_grad_weight %dy, %x into %b : (tensor<?x8x2xf32>, tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = zero.scatter_tokens %1 bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  return %3, %0, %2 : tensor<?x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// Nothing could run meanwhile.

// CHECK-LABEL: func.func private @norm(
// CHECK-NEXT: zero.gather_tokens
// CHECK-NEXT: nn.silu
// CHECK-NEXT: zero.scatter_tokens
func.func private @norm(%x: tensor<?x2x4xf32>) -> tensor<?x2x4xf32> attributes {nn.unit} {
  %0 = zero.gather_tokens %x bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  %1 = nn.silu %0 : tensor<?x8x4xf32>
  %2 = zero.scatter_tokens %1 bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  return %2 : tensor<?x2x4xf32>
}

// RUN: poplar-opt --zero-overlap-exchanges --split-input-file %s | FileCheck %s

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

// Of three gradients as long as each other, the first two run while tokens are
// scattered, and the last behind the product of the next gathered tokens.

// CHECK-LABEL: func.func private @spread(
// CHECK: zero.start_exchange scatter_tokens
// CHECK-NEXT: nn.linear_grad_weight
// CHECK-NEXT: nn.linear_grad_weight
// CHECK-NEXT: zero.wait_exchange
// CHECK-NEXT: zero.sum_exchange
// CHECK-NEXT: nn.silu
// CHECK-NEXT: zero.start_exchange gather_tokens
// CHECK-NEXT: nn.linear
// CHECK-NEXT: nn.linear_grad_weight
// CHECK-NEXT: zero.wait_exchange
func.func private @spread(%dy: tensor<?x8x2xf32>, %x: tensor<?x8x4xf32>, %w: tensor<2x4xf32> {nn.parameter}, %a: tensor<2x4xf32> {nn.gradient}, %b: tensor<2x4xf32> {nn.gradient}, %c: tensor<2x4xf32> {nn.gradient}) -> (tensor<?x8x2xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) attributes {nn.unit} {
  %0 = nn.linear_grad_weight %dy, %x into %a : (tensor<?x8x2xf32>, tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = nn.linear_grad_weight %dy, %x into %b : (tensor<?x8x2xf32>, tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = nn.linear_grad_weight %dy, %x into %c : (tensor<?x8x2xf32>, tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = nn.linear %dy, %w layout in_out : (tensor<?x8x2xf32>, tensor<2x4xf32>) -> tensor<?x8x4xf32>
  %4 = zero.scatter_tokens %3 bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  %5 = nn.silu %4 : tensor<?x2x4xf32>
  %6 = zero.gather_tokens %5 bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  %7 = nn.linear %6, %w : (tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<?x8x2xf32>
  return %7, %0, %1, %2 : tensor<?x8x2xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// A link that carries the fewest tokens of a rank, 32 of 256 bytes, in 82 us: three
// pieces of 25 us at least.

zero.program "cpu" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [2, 1] position 1 sharers_bandwidth 1.0e8
// CHECK-LABEL: func.func private @slow(
// CHECK: zero.start_exchange gather_tokens %{{.*}} bounds [0, 64, 96] position 1 pieces 3 :
// CHECK: zero.start_exchange scatter_tokens %{{.*}} bounds [0, 64, 96] position 1 pieces 3 :
func.func private @slow(%x: tensor<?x32x64xf32>, %up: tensor<8x64xf32> {nn.parameter}, %down: tensor<64x8xf32> {nn.parameter}) -> tensor<?x32x64xf32> attributes {nn.unit} {
  %all = zero.gather_tokens %x bounds [0, 64, 96] position 1 : tensor<?x32x64xf32> -> tensor<?x96x64xf32>
  %0 = nn.linear %all, %up : (tensor<?x96x64xf32>, tensor<8x64xf32>) -> tensor<?x96x8xf32>
  %1 = nn.linear %0, %down : (tensor<?x96x8xf32>, tensor<64x8xf32>) -> tensor<?x96x64xf32>
  %2 = zero.scatter_tokens %1 bounds [0, 64, 96] position 1 : tensor<?x96x64xf32> -> tensor<?x32x64xf32>
  return %2 : tensor<?x32x64xf32>
}

// What no product gives is not cut: a gradient of a weight runs meanwhile.

// CHECK-LABEL: func.func private @whole(
// CHECK: zero.start_exchange scatter_tokens %{{.*}} bounds [0, 64, 96] position 1 :
// CHECK-NEXT: nn.linear_grad_weight
func.func private @whole(%x: tensor<?x96x64xf32>, %dy: tensor<?x96x8xf32>, %a: tensor<8x64xf32> {nn.gradient}) -> (tensor<?x32x64xf32>, tensor<8x64xf32>) attributes {nn.unit} {
  %0 = nn.silu %x : tensor<?x96x64xf32>
  %1 = nn.linear_grad_weight %dy, %x into %a : (tensor<?x96x8xf32>, tensor<?x96x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = zero.scatter_tokens %0 bounds [0, 64, 96] position 1 : tensor<?x96x64xf32> -> tensor<?x32x64xf32>
  return %2, %1 : tensor<?x32x64xf32>, tensor<8x64xf32>
}

// What is scattered is added to the residual, normalised and gathered piece by
// piece. What else is computed of it follows.

// CHECK-LABEL: func.func private @chained(
// CHECK: zero.start_exchange scatter_tokens %{{.*}} bounds [0, 64, 96] position 1 pieces 3 :
// CHECK-NEXT: %[[Q:.*]]:2 = zero.wait_exchange
// CHECK-NEXT: %[[SUM:.*]] = zero.sum_exchange %[[Q]]#0, %[[Q]]#1
// CHECK-NEXT: %[[H:.*]] = nn.add %{{.*}}, %[[SUM]]
// CHECK-NEXT: zero.start_exchange gather_tokens %[[H]] bounds [0, 64, 96] position 1 pieces 3 chained :
// CHECK-NEXT: nn.silu %[[SUM]]
// CHECK-NEXT: nn.linear
// CHECK-NEXT: zero.wait_exchange
func.func private @chained(%x: tensor<?x32x64xf32>, %a: tensor<?x96x8xf32>, %up: tensor<8x64xf32> {nn.parameter}, %down: tensor<64x8xf32> {nn.parameter}) -> (tensor<?x96x8xf32>, tensor<?x32x64xf32>) attributes {nn.unit} {
  %0 = nn.linear %a, %down : (tensor<?x96x8xf32>, tensor<64x8xf32>) -> tensor<?x96x64xf32>
  %1 = zero.scatter_tokens %0 bounds [0, 64, 96] position 1 : tensor<?x96x64xf32> -> tensor<?x32x64xf32>
  %2 = nn.silu %1 : tensor<?x32x64xf32>
  %3 = nn.add %x, %1 : tensor<?x32x64xf32>
  %all = zero.gather_tokens %3 bounds [0, 64, 96] position 1 : tensor<?x32x64xf32> -> tensor<?x96x64xf32>
  %4 = nn.linear %all, %up : (tensor<?x96x64xf32>, tensor<8x64xf32>) -> tensor<?x96x8xf32>
  return %4, %2 : tensor<?x96x8xf32>, tensor<?x32x64xf32>
}

// -----

// No more than four pieces, of 4 tokens at least.

zero.program "cpu" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [1, 1] position 1 sharers_bandwidth 1.0e3
// CHECK-LABEL: func.func private @most(
// CHECK: zero.start_exchange gather_tokens %{{.*}} bounds [0, 128, 256] position 1 pieces 4 :
// CHECK: zero.start_exchange gather_tokens %{{.*}} bounds [0, 8, 16] position 1 pieces 2 :
func.func private @most(%x: tensor<?x128x64xf32>, %y: tensor<?x8x64xf32>, %w: tensor<8x64xf32> {nn.parameter}) -> (tensor<?x256x8xf32>, tensor<?x16x8xf32>) attributes {nn.unit} {
  %0 = zero.gather_tokens %x bounds [0, 128, 256] position 1 : tensor<?x128x64xf32> -> tensor<?x256x64xf32>
  %1 = nn.linear %0, %w : (tensor<?x256x64xf32>, tensor<8x64xf32>) -> tensor<?x256x8xf32>
  %2 = zero.gather_tokens %y bounds [0, 8, 16] position 1 : tensor<?x8x64xf32> -> tensor<?x16x64xf32>
  %3 = nn.linear %2, %w : (tensor<?x16x64xf32>, tensor<8x64xf32>) -> tensor<?x16x8xf32>
  return %1, %3 : tensor<?x256x8xf32>, tensor<?x16x8xf32>
}

// RUN: poplar-opt %s --annotate-cost | FileCheck %s

// FLOPs of one sample, forward and backward: three times the forward pass of
// what @model calls, as often as it calls it.
//
//   linear   2*8*16*4 + 16*4 for the bias   = 1088
//   linear   2*16*8*4                       = 1024
//   add      8*4                            =   32
//   block                                     2144
//   head     2*8*32*4 + 4*32*4 for the loss = 2560
//   3 * (2 * 2144 + 2560)                   = 20544

// CHECK: nn.training_cost 2.054400e+04
// CHECK-NOT: nn.training_cost
nn.parameter @w : tensor<16x8xf32> ones

func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %1 = nn.linear %0, %w layout in_out : (tensor<?x4x16xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.add %x, %1 : tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<32x8xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<32x8xf32>) -> tensor<?x4x32xf32>
  %1:2 = nn.cross_entropy %0, %t : (tensor<?x4x32xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %1#0 : tensor<?x4xf32>
}

// Not called: not counted.
func.func private @spare(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.silu %x : tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @model(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %h: tensor<32x8xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> {
  %0 = call @block(%x, %w, %b) : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w, %b) : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x8xf32>
  %2 = call @head(%1, %h, %t) : (tensor<?x4x8xf32>, tensor<32x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %2 : tensor<?x4xf32>
}

// RUN: poplar-opt %s --zero-shard-units | FileCheck %s

// The first of two devices that share units has half of the hidden columns. The
// tokens of both are gathered before, and the sums go to those that have the
// tokens.
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [1, 1] position 0
  nn.parameter @up.part0 : tensor<4x4xf32> zeros slice <of "up" shape [8, 4] dim 0 ranges [0, 4]>
  nn.parameter @up.part1 : tensor<4x4xf32> zeros slice <of "up" shape [8, 4] dim 0 ranges [4, 8]>
  nn.parameter @up : tensor<8x4xf32> zeros
  nn.parameter @down.part0 : tensor<4x4xf32> zeros slice <of "down" shape [4, 8] dim 1 ranges [0, 4]>
  nn.parameter @down.part1 : tensor<4x4xf32> zeros slice <of "down" shape [4, 8] dim 1 ranges [4, 8]>
  nn.parameter @down : tensor<4x8xf32> zeros
  nn.parameter @e.part0 : tensor<8x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [0, 8]>
  nn.parameter @e.part1 : tensor<8x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [8, 16]>
  nn.parameter @e : tensor<16x4xf32> zeros
  func.func private @embed(%ids: tensor<?x8xi32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %e : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }
  func.func private @block(%x: tensor<?x8x4xf32>, %up: tensor<8x4xf32> {nn.parameter}, %down: tensor<4x8xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %up : (tensor<?x8x4xf32>, tensor<8x4xf32>) -> tensor<?x8x8xf32>
    %1 = nn.silu %0 : tensor<?x8x8xf32>
    %2 = nn.linear %1, %down : (tensor<?x8x8xf32>, tensor<4x8xf32>) -> tensor<?x8x4xf32>
    %3 = nn.add %x, %2 : tensor<?x8x4xf32>
    return %3 : tensor<?x8x4xf32>
  }
  func.func private @loss(%x: tensor<?x8x4xf32>, %e: tensor<16x4xf32> {nn.parameter}, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x4xf32>, tensor<16x4xf32>) -> tensor<?x8x16xf32>
    %loss, %lse = nn.cross_entropy %0, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %e = nn.get_parameter @e : tensor<16x4xf32>
    %up = nn.get_parameter @up : tensor<8x4xf32>
    %down = nn.get_parameter @down : tensor<4x8xf32>
    %0 = call @embed(%ids, %e) : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    %1 = call @block(%0, %up, %down) : (tensor<?x8x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<?x8x4xf32>
    %2 = call @loss(%1, %e, %targets) : (tensor<?x8x4xf32>, tensor<16x4xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %2 : tensor<?x8xf32>
  }
}

// The result:
//
// CHECK:   func.func private @block(
// CHECK: zero.gather_tokens %{{.*}} bounds [0, 4, 8] position 0 : tensor<?x4x4xf32> -> tensor<?x8x4xf32>
// CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x4xf32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
// CHECK: nn.silu
// CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x4xf32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
// CHECK: zero.scatter_tokens %{{.*}} bounds [0, 4, 8] position 0 : tensor<?x8x4xf32> -> tensor<?x4x4xf32>

// RUN: poplar-opt --zero-shard-units %s | FileCheck %s
// RUN: poplar-opt --zero-shard-units --nn-differentiate %s | FileCheck %s --check-prefix=TRAIN

// The second of two devices, which computes a quarter of each unit. Adapters are
// divided as the layers beside them, and not by their rank: B where the layer is
// divided by its outputs, A where it is by its inputs. What comes of A there is a
// part of a sum, and so is what comes of B; both go through the layer's scatter.
// Columns are cut at multiples of 64, as blocks of quantised values are. A part
// that cuts blocks of 256 scales has these in f32.

module attributes {nn.model = {frozen_format = "nf4_double"}} {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [3, 1] position 1
  nn.parameter @up.part1 : tensor<64x128x!nn.quantized<nf4>> zeros frozen slice #nn.slice<of "up" shape [256, 128] dim 0 ranges [192, 256]>
  nn.parameter @down.part1 : tensor<128x64x!nn.quantized<nf4>> zeros frozen slice #nn.slice<of "down" shape [128, 256] dim 1 ranges [192, 256]>
  nn.parameter @up_b.part1 : tensor<64x4xf32> zeros slice #nn.slice<of "up_b" shape [256, 4] dim 0 ranges [192, 256]>
  nn.parameter @down_a.part1 : tensor<4x64xf32> zeros slice #nn.slice<of "down_a" shape [4, 256] dim 1 ranges [192, 256]>
  nn.parameter @up : tensor<256x128x!nn.quantized<nf4_double>> zeros frozen
  nn.parameter @down : tensor<128x256x!nn.quantized<nf4_double>> zeros frozen
  nn.parameter @up_a : tensor<4x128xf32> zeros
  nn.parameter @up_b : tensor<256x4xf32> zeros
  nn.parameter @down_a : tensor<4x256xf32> zeros
  nn.parameter @down_b : tensor<128x4xf32> zeros
  nn.parameter @e : tensor<16x128xf32> zeros frozen
  nn.parameter @e.part1 : tensor<4x128xf32> zeros frozen slice #nn.slice<of "e" shape [16, 128] dim 0 ranges [12, 16]>

  func.func private @embed(%ids: tensor<?x8xi32>, %e: tensor<16x128xf32> {nn.parameter}) -> tensor<?x8x128xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %e : (tensor<?x8xi32>, tensor<16x128xf32>) -> tensor<?x8x128xf32>
    return %0 : tensor<?x8x128xf32>
  }

  // CHECK-LABEL: func.func private @block(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<?x2x128xf32>
  // CHECK: %[[ALL:.*]] = zero.gather_tokens %[[X]]
  // CHECK: %[[UP:.*]] = nn.linear %[[ALL]], %{{.*}} : (tensor<?x8x128xf32>, tensor<64x128x!nn.quantized<nf4>>) -> tensor<?x8x64xf32>
  // CHECK: %[[DROPPED:.*]] = nn.dropout %[[X]] {{.*}} tokens [6, 8]
  // CHECK: %[[INNER:.*]] = nn.linear %[[DROPPED]], %{{.*}} : (tensor<?x2x128xf32>, tensor<4x128xf32>) -> tensor<?x2x4xf32>
  // CHECK: %[[SCALED:.*]] = nn.scale %[[INNER]]
  // CHECK: %[[NARROW:.*]] = zero.gather_tokens %[[SCALED]]
  // CHECK: %[[B:.*]] = nn.linear %[[NARROW]], %{{.*}} : (tensor<?x8x4xf32>, tensor<64x4xf32>) -> tensor<?x8x64xf32>
  // CHECK: %[[SUM:.*]] = nn.add %[[UP]], %[[B]]
  // CHECK: %[[Y:.*]] = nn.silu %[[SUM]]
  // CHECK: %[[DOWN:.*]] = nn.linear %[[Y]], %{{.*}} : (tensor<?x8x64xf32>, tensor<128x64x!nn.quantized<nf4>>) -> tensor<?x8x128xf32>
  // CHECK: %[[DROPPED2:.*]] = nn.dropout %[[Y]] {{.*}} tokens [0, 8, 192, 256]
  // CHECK: nn.linear %[[DROPPED2]], %{{.*}} : (tensor<?x8x64xf32>, tensor<4x64xf32>) -> tensor<?x8x4xf32>
  // CHECK-NOT: scatter
  // CHECK: %[[B2:.*]] = nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x4xf32>, tensor<128x4xf32>) -> tensor<?x8x128xf32>
  // CHECK: %[[SUM2:.*]] = nn.add %[[DOWN]], %[[B2]]
  // CHECK: zero.scatter_tokens %[[SUM2]]
  // TRAIN-LABEL: func.func private @block.backward(
  // TRAIN: zero.gather_tokens
  // TRAIN: nn.dropout {{.*}} tokens [0, 8, 192, 256]
  func.func private @block(%x: tensor<?x8x128xf32>, %keys: tensor<?x2xi32>, %up: tensor<256x128x!nn.quantized<nf4_double>> {nn.parameter}, %down: tensor<128x256x!nn.quantized<nf4_double>> {nn.parameter}, %up_a: tensor<4x128xf32> {nn.parameter}, %up_b: tensor<256x4xf32> {nn.parameter}, %down_a: tensor<4x256xf32> {nn.parameter}, %down_b: tensor<128x4xf32> {nn.parameter}) -> tensor<?x8x128xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %up : (tensor<?x8x128xf32>, tensor<256x128x!nn.quantized<nf4_double>>) -> tensor<?x8x256xf32>
    %1 = nn.dropout %x keys %keys p 0.1 op_id 0 : tensor<?x8x128xf32>, tensor<?x2xi32>
    %2 = nn.linear %1, %up_a : (tensor<?x8x128xf32>, tensor<4x128xf32>) -> tensor<?x8x4xf32>
    %3 = nn.scale %2 factor 2.0 : tensor<?x8x4xf32>
    %4 = nn.linear %3, %up_b : (tensor<?x8x4xf32>, tensor<256x4xf32>) -> tensor<?x8x256xf32>
    %5 = nn.add %0, %4 : tensor<?x8x256xf32>
    %6 = nn.silu %5 : tensor<?x8x256xf32>
    %7 = nn.linear %6, %down : (tensor<?x8x256xf32>, tensor<128x256x!nn.quantized<nf4_double>>) -> tensor<?x8x128xf32>
    %8 = nn.dropout %6 keys %keys p 0.1 op_id 1 : tensor<?x8x256xf32>, tensor<?x2xi32>
    %9 = nn.linear %8, %down_a : (tensor<?x8x256xf32>, tensor<4x256xf32>) -> tensor<?x8x4xf32>
    %10 = nn.scale %9 factor 2.0 : tensor<?x8x4xf32>
    %11 = nn.linear %10, %down_b : (tensor<?x8x4xf32>, tensor<128x4xf32>) -> tensor<?x8x128xf32>
    %12 = nn.add %7, %11 : tensor<?x8x128xf32>
    %13 = nn.add %x, %12 : tensor<?x8x128xf32>
    return %13 : tensor<?x8x128xf32>
  }
  func.func private @head(%x: tensor<?x8x128xf32>, %targets: tensor<?x8xi32>, %e: tensor<16x128xf32> {nn.parameter}) -> tensor<?x8xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x128xf32>, tensor<16x128xf32>) -> tensor<?x8x16xf32>
    %loss, %lse = nn.cross_entropy %0, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %e = nn.get_parameter @e : tensor<16x128xf32>
    %up = nn.get_parameter @up : tensor<256x128x!nn.quantized<nf4_double>>
    %down = nn.get_parameter @down : tensor<128x256x!nn.quantized<nf4_double>>
    %up_a = nn.get_parameter @up_a : tensor<4x128xf32>
    %up_b = nn.get_parameter @up_b : tensor<256x4xf32>
    %down_a = nn.get_parameter @down_a : tensor<4x256xf32>
    %down_b = nn.get_parameter @down_b : tensor<128x4xf32>
    %0 = call @embed(%ids, %e) : (tensor<?x8xi32>, tensor<16x128xf32>) -> tensor<?x8x128xf32>
    %1 = call @block(%0, %keys, %up, %down, %up_a, %up_b, %down_a, %down_b) : (tensor<?x8x128xf32>, tensor<?x2xi32>, tensor<256x128x!nn.quantized<nf4_double>>, tensor<128x256x!nn.quantized<nf4_double>>, tensor<4x128xf32>, tensor<256x4xf32>, tensor<4x256xf32>, tensor<128x4xf32>) -> tensor<?x8x128xf32>
    %2 = call @head(%1, %targets, %e) : (tensor<?x8x128xf32>, tensor<?x8xi32>, tensor<16x128xf32>) -> tensor<?x8xf32>
    return %2 : tensor<?x8xf32>
  }
}

// RUN: poplar-opt --zero-shard-units %s | FileCheck %s
// RUN: poplar-opt --zero-shard-units --nn-differentiate %s | FileCheck %s --check-prefix=TRAIN

// The second of two devices, which computes a quarter of each unit: it looks up
// its rows of the table, and has a quarter of the hidden columns. Between units it
// has its tokens: 6 and 7 of 8. The parameter of the norm it has whole.

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [3, 1] position 1
  // CHECK-NOT: nn.parameter @e :
  nn.parameter @e.part0 : tensor<12x4xf32> zeros slice #nn.slice<of "e" shape [16, 4] dim 0 ranges [0, 12]>
  nn.parameter @e.part1 : tensor<4x4xf32> zeros slice #nn.slice<of "e" shape [16, 4] dim 0 ranges [12, 16]>
  nn.parameter @e : tensor<16x4xf32> zeros
  nn.parameter @g : tensor<4xf32> ones
  nn.parameter @up.part0 : tensor<6x4xf32> zeros slice #nn.slice<of "up" shape [8, 4] dim 0 ranges [0, 6]>
  nn.parameter @up.part1 : tensor<2x4xf32> zeros slice #nn.slice<of "up" shape [8, 4] dim 0 ranges [6, 8]>
  nn.parameter @up : tensor<8x4xf32> zeros
  nn.parameter @down.part0 : tensor<4x6xf32> zeros slice #nn.slice<of "down" shape [4, 8] dim 1 ranges [0, 6]>
  nn.parameter @down.part1 : tensor<4x2xf32> zeros slice #nn.slice<of "down" shape [4, 8] dim 1 ranges [6, 8]>
  nn.parameter @down : tensor<4x8xf32> zeros
  nn.parameter @bias : tensor<4xf32> zeros

  // CHECK-LABEL: func.func private @embed(
  // CHECK: %[[E:.*]] = nn.embedding %{{.*}}, %{{.*}} first_row 12 : (tensor<?x8xi32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
  // CHECK: zero.scatter_tokens %[[E]] bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  func.func private @embed(%ids: tensor<?x8xi32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %e : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    return %0 : tensor<?x8x4xf32>
  }

  // The bias of a sum over devices is the first one's.
  // CHECK-LABEL: func.func private @block(
  // CHECK-SAME: %[[X:.*]]: tensor<?x2x4xf32>, %{{.*}}: tensor<4xf32> {nn.parameter}, %{{.*}}: tensor<2x4xf32> {nn.parameter}, %{{.*}}: tensor<4x2xf32> {nn.parameter}) -> tensor<?x2x4xf32>
  // CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm %[[X]]
  // CHECK: %[[ALL:.*]] = zero.gather_tokens %[[N]] bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  // CHECK: nn.linear %[[ALL]], %{{.*}} : (tensor<?x8x4xf32>, tensor<2x4xf32>) -> tensor<?x8x2xf32>
  // CHECK: nn.silu
  // CHECK: %[[D:.*]] = nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x2xf32>, tensor<4x2xf32>) -> tensor<?x8x4xf32>
  // CHECK: %[[MINE:.*]] = zero.scatter_tokens %[[D]]
  // CHECK: nn.add %[[X]], %[[MINE]] : tensor<?x2x4xf32>
  // TRAIN-LABEL: func.func private @block.backward(
  // TRAIN: zero.gather_tokens %{{.*}} bounds [0, 6, 8] position 1 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  // TRAIN: zero.scatter_tokens %{{.*}} bounds [0, 6, 8] position 1 : tensor<?x8x4xf32> -> tensor<?x2x4xf32>
  // TRAIN: nn.rms_norm_grad
  func.func private @block(%x: tensor<?x8x4xf32>, %g: tensor<4xf32> {nn.parameter}, %up: tensor<8x4xf32> {nn.parameter}, %down: tensor<4x8xf32> {nn.parameter}, %bias: tensor<4xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
    %n, %r = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x8x4xf32>, tensor<4xf32>) -> (tensor<?x8x4xf32>, tensor<?x8xf32>)
    %0 = nn.linear %n, %up : (tensor<?x8x4xf32>, tensor<8x4xf32>) -> tensor<?x8x8xf32>
    %1 = nn.silu %0 : tensor<?x8x8xf32>
    %2 = nn.linear %1, %down bias %bias : (tensor<?x8x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x8x4xf32>
    %3 = nn.add %x, %2 : tensor<?x8x4xf32>
    return %3 : tensor<?x8x4xf32>
  }

  // CHECK-LABEL: func.func private @head(
  // CHECK: zero.gather_tokens
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x4xf32>, tensor<4x4xf32>) -> tensor<?x8x4xf32>
  func.func private @head(%x: tensor<?x8x4xf32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x8x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x4xf32>, tensor<16x4xf32>) -> tensor<?x8x16xf32>
    return %0 : tensor<?x8x16xf32>
  }

  // CHECK-LABEL: func.func private @loss(
  // CHECK: zero.cross_entropy %{{.*}}, %{{.*}} first_column 12 bounds [0, 6, 8]
  // TRAIN: nn.cross_entropy_grad {{.*}} first_column 12
  func.func private @loss(%x: tensor<?x8x16xf32>, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }

  // CHECK-LABEL: func.func @model(
  // CHECK: nn.get_parameter @e.part1 : tensor<4x4xf32>
  // CHECK: call @embed
  // CHECK: call @block(%{{.*}}) : (tensor<?x2x4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<?x2x4xf32>
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %e = nn.get_parameter @e : tensor<16x4xf32>
    %g = nn.get_parameter @g : tensor<4xf32>
    %up = nn.get_parameter @up : tensor<8x4xf32>
    %down = nn.get_parameter @down : tensor<4x8xf32>
    %bias = nn.get_parameter @bias : tensor<4xf32>
    %0 = call @embed(%ids, %e) : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    %1 = call @block(%0, %g, %up, %down, %bias) : (tensor<?x8x4xf32>, tensor<4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x8x4xf32>
    %2 = call @block(%1, %g, %up, %down, %bias) : (tensor<?x8x4xf32>, tensor<4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x8x4xf32>
    %3 = call @head(%2, %e) : (tensor<?x8x4xf32>, tensor<16x4xf32>) -> tensor<?x8x16xf32>
    %4 = call @loss(%3, %targets) : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %4 : tensor<?x8xf32>
  }
}

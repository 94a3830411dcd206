// RUN: poplar-opt --zero-shard-units %s | FileCheck %s
// RUN: poplar-opt --zero-shard-units --nn-differentiate --add-optimizer --zero-split-turns --zero-materialize %s | FileCheck %s --check-prefix=UPDATE

// A device that computes whole units beside a pipeline in which two share them:
// position 2 of two parts. It takes the layer in the parts of the others, without
// exchanges, and what is computed token by token once. Its table is the parts of
// theirs, one behind the other.

module attributes {nn.model = {}} {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 3 parts [3, 1] position 2
  // CHECK: nn.parameter @e : tensor<16x8xf32> zeros slice <of "e" shape [16, 8] dim 0 ranges [0, 16]> {zero.parts = [@e.part0, @e.part1]}
  nn.parameter @e.part0 : tensor<12x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [0, 12]>
  nn.parameter @e.part1 : tensor<4x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [12, 16]>
  nn.parameter @e : tensor<16x8xf32> zeros
  nn.parameter @g : tensor<8xf32> ones
  nn.parameter @up.part0 : tensor<9x8xf32> zeros slice #nn.slice<of "up" shape [12, 8] dim 0 ranges [0, 9]>
  nn.parameter @up.part1 : tensor<3x8xf32> zeros slice #nn.slice<of "up" shape [12, 8] dim 0 ranges [9, 12]>
  nn.parameter @up : tensor<12x8xf32> zeros
  nn.parameter @down.part0 : tensor<8x9xf32> zeros slice #nn.slice<of "down" shape [8, 12] dim 1 ranges [0, 9]>
  nn.parameter @down.part1 : tensor<8x3xf32> zeros slice #nn.slice<of "down" shape [8, 12] dim 1 ranges [9, 12]>
  nn.parameter @down : tensor<8x12xf32> zeros
  nn.parameter @bias : tensor<8xf32> zeros
  zero.bucket @first [@e.part0] bounds [0, 32, 64, 96] groups [0, 0] positions [0, 2] stage 1
  zero.bucket @second [@e.part1] bounds [0, 0, 32, 32] groups [0, 0] positions [1, 2] stage 1
  zero.bucket @block0 [@up.part0, @down.part0, @bias] bounds [0, 64, 64, 224] groups [0, 0] positions [0, 2] stage 1
  zero.bucket @block1 [@up.part1, @down.part1] bounds [0, 0, 32, 64] groups [0, 0] positions [1, 2] stage 1
  zero.bucket @all [@g] bounds [0, 32, 32, 32] groups [0, 0, 0] positions [0, 1, 2] stage 1

  // CHECK-LABEL: func.func private @embed(
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x8x8xf32>
  func.func private @embed(%ids: tensor<?x8xi32>, %e: tensor<16x8xf32> {nn.parameter}) -> tensor<?x8x8xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %e : (tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x8x8xf32>
    return %0 : tensor<?x8x8xf32>
  }

  // The bias is added once.
  // CHECK-LABEL: func.func private @block(
  // CHECK-SAME: %[[X:.*]]: tensor<?x8x8xf32>, %{{.*}}: tensor<8xf32> {nn.parameter}, %[[UP:.*]]: tensor<9x8xf32> {nn.parameter}, %[[DOWN:.*]]: tensor<8x9xf32> {nn.parameter}, %[[BIAS:.*]]: tensor<8xf32> {nn.parameter}, %[[UP1:.*]]: tensor<3x8xf32> {nn.parameter}, %[[DOWN1:.*]]: tensor<8x3xf32> {nn.parameter}) -> tensor<?x8x8xf32>
  // CHECK-NEXT: %[[N:.*]], %{{.*}} = nn.rms_norm %[[X]]
  // CHECK-NEXT: %[[U:.*]] = nn.linear %[[N]], %[[UP]] :
  // CHECK-NEXT: %[[U1:.*]] = nn.linear %[[N]], %[[UP1]] :
  // CHECK-NEXT: %[[A:.*]] = nn.silu %[[U]]
  // CHECK-NEXT: %[[A1:.*]] = nn.silu %[[U1]]
  // CHECK-NEXT: %[[D:.*]] = nn.linear %[[A]], %[[DOWN]] bias %[[BIAS]]
  // CHECK-NEXT: %[[D1:.*]] = nn.linear %[[A1]], %[[DOWN1]] :
  // CHECK-NEXT: %[[SUM:.*]] = nn.add %[[D]], %[[D1]]
  // CHECK-NEXT: %[[Y:.*]] = nn.add %[[X]], %[[SUM]]
  // CHECK-NEXT: return %[[Y]]
  func.func private @block(%x: tensor<?x8x8xf32>, %g: tensor<8xf32> {nn.parameter}, %up: tensor<12x8xf32> {nn.parameter}, %down: tensor<8x12xf32> {nn.parameter}, %bias: tensor<8xf32> {nn.parameter}) -> tensor<?x8x8xf32> attributes {nn.unit} {
    %n, %r = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x8x8xf32>, tensor<8xf32>) -> (tensor<?x8x8xf32>, tensor<?x8xf32>)
    %0 = nn.linear %n, %up : (tensor<?x8x8xf32>, tensor<12x8xf32>) -> tensor<?x8x12xf32>
    %1 = nn.silu %0 : tensor<?x8x12xf32>
    %2 = nn.linear %1, %down bias %bias : (tensor<?x8x12xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<?x8x8xf32>
    %3 = nn.add %x, %2 : tensor<?x8x8xf32>
    return %3 : tensor<?x8x8xf32>
  }
  // CHECK-LABEL: func.func private @head(
  // CHECK: nn.linear %{{.*}}, %{{.*}} : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
  func.func private @head(%x: tensor<?x8x8xf32>, %e: tensor<16x8xf32> {nn.parameter}) -> tensor<?x8x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    return %0 : tensor<?x8x16xf32>
  }
  // CHECK: nn.cross_entropy
  func.func private @loss(%x: tensor<?x8x16xf32>, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  // CHECK-LABEL: func.func @model(
  // CHECK-DAG: nn.get_parameter @up.part0 : tensor<9x8xf32>
  // CHECK-DAG: nn.get_parameter @up.part1 : tensor<3x8xf32>
  // CHECK-DAG: nn.get_parameter @down.part0 : tensor<8x9xf32>
  // CHECK-DAG: nn.get_parameter @down.part1 : tensor<8x3xf32>
  // CHECK-DAG: nn.get_parameter @e : tensor<16x8xf32>
  // UPDATE: func.func @update
  // UPDATE-DAG: zero.adamw @first
  // UPDATE-DAG: zero.adamw @second
  // UPDATE-DAG: zero.adamw @block0
  // UPDATE-DAG: zero.adamw @block1
  // UPDATE-DAG: zero.adamw @all
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %e = nn.get_parameter @e : tensor<16x8xf32>
    %g = nn.get_parameter @g : tensor<8xf32>
    %up = nn.get_parameter @up : tensor<12x8xf32>
    %down = nn.get_parameter @down : tensor<8x12xf32>
    %bias = nn.get_parameter @bias : tensor<8xf32>
    %0 = call @embed(%ids, %e) : (tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x8x8xf32>
    %1 = call @block(%0, %g, %up, %down, %bias) : (tensor<?x8x8xf32>, tensor<8xf32>, tensor<12x8xf32>, tensor<8x12xf32>, tensor<8xf32>) -> tensor<?x8x8xf32>
    %2 = call @head(%1, %e) : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    %3 = call @loss(%2, %targets) : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %3 : tensor<?x8xf32>
  }
}

// RUN: poplar-opt --zero-shard-units --split-input-file %s | FileCheck %s
// RUN: poplar-opt --zero-shard-units --nn-differentiate --add-optimizer --zero-split-turns --zero-materialize --split-input-file %s | FileCheck %s --check-prefix=UPDATE

// A tied parameter that another stage divides. The device of this one has it whole:
// the two parts, one behind the other. They are collected one by one.

// CHECK: nn.parameter @e.part0 : tensor<8x4xf32>
// CHECK: nn.parameter @e.part1 : tensor<8x4xf32>
// CHECK: nn.parameter @e : tensor<16x4xf32> zeros slice <of "e" shape [16, 4] dim 0 ranges [0, 16]> {zero.parts = [@e.part0, @e.part1]}
// CHECK: nn.get_parameter @e : tensor<16x4xf32>
// UPDATE: func.func @update
// UPDATE: zero.reduce_scatter @first
// UPDATE: zero.reduce_scatter @second
// UPDATE: zero.adamw @first
// UPDATE: zero.all_gather @first
// UPDATE: zero.adamw @second
// UPDATE: zero.all_gather @second

module attributes {nn.model = {}} {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 3 group 1 of 2
  nn.parameter @e.part0 : tensor<8x4xf32> zeros slice #nn.slice<of "e" shape [16, 4] dim 0 ranges [0, 8]>
  nn.parameter @e.part1 : tensor<8x4xf32> zeros slice #nn.slice<of "e" shape [16, 4] dim 0 ranges [8, 16]>
  nn.parameter @e : tensor<16x4xf32> zeros
  zero.bucket @first [@e.part0] bounds [0, 16, 16, 32] groups [0, 1] positions [0, 0] stage 1
  zero.bucket @second [@e.part1] bounds [0, 0, 16, 32] groups [0, 1] positions [1, 0] stage 1
  func.func private @head(%x: tensor<?x8x4xf32>, %e: tensor<16x4xf32> {nn.parameter}) -> tensor<?x8x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x4xf32>, tensor<16x4xf32>) -> tensor<?x8x16xf32>
    return %0 : tensor<?x8x16xf32>
  }
  func.func private @loss(%x: tensor<?x8x16xf32>, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %x = zero.receive activation from 0 chunk 0 : tensor<?x8x4xf32>
    %e = nn.get_parameter @e : tensor<16x4xf32>
    %0 = call @head(%x, %e) : (tensor<?x8x4xf32>, tensor<16x4xf32>) -> tensor<?x8x16xf32>
    %1 = call @loss(%0, %targets) : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %1 : tensor<?x8xf32>
  }
}

// -----

// Two devices of which the second reads rows 4 to 16 of a table that another group
// cuts at row 8.

// CHECK: nn.parameter @e : tensor<12x8xf32> zeros slice <of "e" shape [16, 8] dim 0 ranges [4, 16]> {zero.parts = [@e.part1, @e.part2]}
// CHECK: nn.get_parameter @e : tensor<12x8xf32>

module attributes {nn.model = {}} {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 4 group 1 of 2 parts [1, 3] position 1
  nn.parameter @e.part0 : tensor<4x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [0, 4]>
  nn.parameter @e.part1 : tensor<4x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [4, 8]>
  nn.parameter @e.part2 : tensor<8x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [8, 16]>
  nn.parameter @e : tensor<16x8xf32> zeros
  zero.bucket @first [@e.part0] bounds [0, 32, 32, 32, 32] groups [0, 1] positions [0, 0] stage 1
  zero.bucket @second [@e.part1] bounds [0, 32, 32, 32, 32] groups [0, 1] positions [0, 1] stage 1
  zero.bucket @third [@e.part2] bounds [0, 0, 64, 64, 64] groups [0, 1] positions [1, 1] stage 1
  func.func private @head(%x: tensor<?x8x8xf32>, %e: tensor<16x8xf32> {nn.parameter}) -> tensor<?x8x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    return %0 : tensor<?x8x16xf32>
  }
  func.func private @loss(%x: tensor<?x8x16xf32>, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %x = zero.receive activation from 0 chunk 0 : tensor<?x8x8xf32>
    %e = nn.get_parameter @e : tensor<16x8xf32>
    %0 = call @head(%x, %e) : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    %1 = call @loss(%0, %targets) : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %1 : tensor<?x8xf32>
  }
}

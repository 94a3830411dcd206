// RUN: sed -e 's/STAGE/0/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefix=STAGE0
// RUN: sed -e 's/STAGE/1/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefix=STAGE1
// RUN: sed -e 's/STAGE/2/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefix=STAGE2
// RUN: sed -e 's/STAGE/3/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefix=STAGE3

// Where a plan lets collectives lose something, each of them says in what it
// carries gradients, or parameters.

// STAGE0-LABEL: func.func @train_last(
// STAGE0:       zero.all_reduce @b wire i8{{$}}
// STAGE0-LABEL: func.func @update(
// STAGE0-NOT:   all_gather

// STAGE1-LABEL: func.func @train_last(
// STAGE1:       zero.reduce_scatter @b wire i8{{$}}
// STAGE1-LABEL: func.func @update(
// STAGE1:       zero.all_gather @b wire bf16{{$}}

// STAGE2-LABEL: func.func @train(
// STAGE2:       zero.reduce_scatter @b wire i8(
// STAGE2-LABEL: func.func @update(
// STAGE2:       zero.all_gather @b wire bf16{{$}}

// STAGE3-LABEL: func.func @train(
// STAGE3:       zero.all_gather @b wire bf16 :
// STAGE3:       zero.reduce_scatter @b wire i8(

module {
  zero.program "cpu" target "host" precision f32 wire bf16 gradient_wire i8 lossy_parameters recompute "keep" stage STAGE world_size 2
nn.parameter @w : tensor<8xf32> ones
zero.bucket @b [@w] bounds [0, 16, 32]

func.func private @unit(tensor<?x4xi32>, tensor<8xf32>) -> tensor<?x4xf32> attributes {nn.unit}
func.func private @unit.backward(tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32> {nn.gradient}) -> tensor<8xf32> attributes {nn.unit}

func.func @train(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>, %dloss: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<8xf32>
  %loss = call @unit(%ids, %w) : (tensor<?x4xi32>, tensor<8xf32>) -> tensor<?x4xf32>
  %g = nn.get_gradient @w : tensor<8xf32>
  %sum = call @unit.backward(%ids, %w, %dloss, %g) : (tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  nn.set_gradient @w, %sum : tensor<8xf32>
  return %loss : tensor<?x4xf32>
}
}

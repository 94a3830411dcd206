// RUN: sed -e 's/STAGE/1/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefix=STAGE1
// RUN: sed -e 's/STAGE/2/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefixes=BOTH,STAGE2
// RUN: sed -e 's/STAGE/3/' %s | poplar-opt --zero-materialize | FileCheck %s --check-prefixes=BOTH,STAGE3
// RUN: sed -e 's/STAGE/3/' %s | poplar-opt --zero-materialize --zero-async --zero-delay-waits --zero-verify | FileCheck %s --check-prefix=DELAYED
// RUN: sed -e 's/STAGE/1/' %s | poplar-opt --zero-materialize --zero-async --zero-delay-waits --zero-verify | FileCheck %s --check-prefix=DELAYED

// Two shard groups of two ranks: bounds are those of a group. Shards of gradients
// are added across the groups once an iteration, when all of a bucket's have been
// reduced inside.

// STAGE1-LABEL: func.func @train(
// STAGE1-NOT:   zero.
// STAGE1-LABEL: func.func @train_last(
// STAGE1:       zero.reduce_scatter @b wire f32 unscale{{$}}
// STAGE1-NEXT:  zero.all_reduce @b wire f32{{$}}
// STAGE1-NOT:   zero.all_reduce
// STAGE1-LABEL: func.func @update(
// STAGE1-NOT:   reduce
// STAGE1:       zero.norm{{$}}
// STAGE1:       zero.adamw @b
// STAGE1-NEXT:  zero.all_gather @b wire f32{{$}}

// The unit is used twice, so the bucket is reduced twice.

// BOTH-LABEL:   func.func @train(
// BOTH-COUNT-2: zero.reduce_scatter @b wire f32 unscale(
// BOTH-NOT:     all_reduce
// BOTH-LABEL:   func.func @train_last(
// BOTH-COUNT-2: zero.reduce_scatter @b wire f32 unscale(
// BOTH-NEXT:    zero.all_reduce @b wire f32{{$}}
// BOTH-LABEL:   func.func @update(
// BOTH-NOT:     reduce
// STAGE2:       zero.all_gather
// STAGE3-NOT:   zero.all_gather

// Its wait is the last before the end.

// DELAYED-LABEL: func.func @train_last(
// DELAYED:       zero.start reduce_scatter @other
// DELAYED:       zero.start all_reduce @other
// DELAYED:       zero.start reduce_scatter @b
// DELAYED:       %[[S:.*]] = zero.start all_reduce @b wire f32
// DELAYED-NEXT:  zero.wait %[[S]]
// DELAYED-NEXT:  return

module {
  zero.program "cpu" target "host" precision f16 wire f32 gradient_wire f32 recompute "keep" stage STAGE world_size 4 replicas 2
nn.parameter @w : tensor<8xf32> ones
nn.parameter @v : tensor<8xf32> ones
zero.bucket @b [@w] bounds [0, 16, 32]
zero.bucket @other [@v] bounds [0, 16, 32]

func.func private @unit(tensor<?x4xi32>, tensor<8xf32>) -> tensor<?x4xf32> attributes {nn.unit}
func.func private @unit.backward(tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32> {nn.gradient}) -> tensor<8xf32> attributes {nn.unit}

func.func @train(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>, %dloss: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<8xf32>
  %v = nn.get_parameter @v : tensor<8xf32>
  %loss = call @unit(%ids, %w) : (tensor<?x4xi32>, tensor<8xf32>) -> tensor<?x4xf32>
  %g = nn.get_gradient @w : tensor<8xf32>
  %sum = call @unit.backward(%ids, %w, %dloss, %g) : (tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %gv = nn.get_gradient @v : tensor<8xf32>
  %sumv = call @unit.backward(%ids, %v, %dloss, %gv) : (tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %again = call @unit.backward(%ids, %w, %dloss, %sum) : (tensor<?x4xi32>, tensor<8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  nn.set_gradient @v, %sumv : tensor<8xf32>
  nn.set_gradient @w, %again : tensor<8xf32>
  return %loss : tensor<?x4xf32>
}
}

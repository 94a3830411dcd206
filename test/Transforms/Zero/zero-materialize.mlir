// RUN: sed -e 's/STAGE/0/' %s | poplar-opt --zero-materialize --split-input-file | FileCheck %s --check-prefixes=ALL,STAGE0
// RUN: sed -e 's/STAGE/1/' %s | poplar-opt --zero-materialize --split-input-file | FileCheck %s --check-prefixes=ALL,STAGE1
// RUN: sed -e 's/STAGE/2/' %s | poplar-opt --zero-materialize --split-input-file | FileCheck %s --check-prefixes=ALL,STAGE2
// RUN: sed -e 's/STAGE/3/' %s | poplar-opt --zero-materialize --split-input-file | FileCheck %s --check-prefixes=ALL,STAGE3

// Two layers between an embedding and a head that share @wte: its backward pass
// first adds to the gradient of @wte in the head, last in the embedding. The
// type computes in bf16, but another in the job does not: the wire is f32.

module {
  zero.program "gpu" target "host" precision bf16 wire f32 gradient_wire f32 recompute "keep" stage STAGE world_size 2
nn.parameter @wte : tensor<16x8xf32> ones
nn.parameter @w0 : tensor<8x8xf32> ones
nn.parameter @b0 : tensor<8xf32> zeros
nn.parameter @w1 : tensor<8x8xf32> ones
nn.parameter @b1 : tensor<8xf32> zeros
zero.bucket @tied [@wte] bounds [0, 64, 128]
zero.bucket @layer0 [@w0, @b0] bounds [0, 48, 96]
zero.bucket @layer1 [@w1, @b1] bounds [0, 48, 96]

func.func private @embed(tensor<?x4xi32>, tensor<16x8xbf16>) -> tensor<?x4x8xbf16> attributes {nn.unit}
func.func private @layer(tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x4x8xbf16> attributes {nn.unit}
func.func private @head(tensor<?x4x8xbf16>, tensor<16x8xbf16>) -> tensor<?x4xf32> attributes {nn.unit}
func.func private @head.backward(tensor<?x4x8xbf16>, tensor<16x8xbf16>, tensor<?x4xf32>, tensor<16x8xf32> {nn.gradient}) -> (tensor<?x4x8xbf16>, tensor<16x8xf32>) attributes {nn.unit}
func.func private @layer.backward(tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<?x4x8xbf16>, tensor<8x8xf32> {nn.gradient}, tensor<8xf32> {nn.gradient}) -> (tensor<?x4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>) attributes {nn.unit}
func.func private @embed.backward(tensor<?x4xi32>, tensor<?x4x8xbf16>, tensor<16x8xf32> {nn.gradient}) -> tensor<16x8xf32> attributes {nn.unit}

// Stages 0 and 1 leave @train alone, which adds to the running gradients.
// STAGE0-LABEL: func.func @train(
// STAGE0-NOT:   zero.
// STAGE1-LABEL: func.func @train(
// STAGE1-NOT:   zero.

// @train_last is @train, and reduces every bucket when its gradients are
// complete, while the backward pass goes on; the tied one at the end.
// STAGE0-LABEL: func.func @train_last(
// STAGE0:       call @layer.backward
// STAGE0-NEXT:  nn.set_gradient @w1
// STAGE0-NEXT:  nn.set_gradient @b1
// STAGE0-NEXT:  zero.all_reduce @layer1 wire f32{{$}}
// STAGE0:       call @layer.backward
// STAGE0-NEXT:  nn.set_gradient @w0
// STAGE0-NEXT:  nn.set_gradient @b0
// STAGE0-NEXT:  zero.all_reduce @layer0 wire f32{{$}}
// STAGE0:       call @embed.backward
// STAGE0-NEXT:  nn.set_gradient @wte
// STAGE0-NEXT:  zero.all_reduce @tied wire f32{{$}}
// STAGE0-NEXT:  return

// STAGE1-LABEL: func.func @train_last(
// STAGE1:       nn.set_gradient @b1
// STAGE1-NEXT:  zero.reduce_scatter @layer1 wire f32{{$}}
// STAGE1:       nn.set_gradient @b0
// STAGE1-NEXT:  zero.reduce_scatter @layer0 wire f32{{$}}
// STAGE1:       nn.set_gradient @wte
// STAGE1-NEXT:  zero.reduce_scatter @tied wire f32{{$}}
// STAGE1-NEXT:  return

// Stages 2 and 3 add up a micro-step's gradients in transient memory, and
// reduce them when the unit is done. The tied bucket is reduced twice; the
// owners of its shards add up.
// STAGE2-LABEL: func.func @train(
// STAGE2-NOT:   zero.all_gather
// STAGE2:       %[[WTE:.*]] = nn.get_parameter @wte
// STAGE2:       call @head(%{{.*}}, %[[WTE]])
// STAGE2-NEXT:  %[[ZT:.*]] = zero.gradients @tied : tensor<16x8xf32>
// STAGE2-NEXT:  %[[H:.*]]:2 = call @head.backward(%{{.*}}, %[[WTE]], %{{.*}}, %[[ZT]])
// STAGE2-NEXT:  zero.reduce_scatter @tied wire f32(%[[H]]#1 : tensor<16x8xf32>)
// STAGE2-NEXT:  %[[Z1:.*]]:2 = zero.gradients @layer1 : tensor<8x8xf32>, tensor<8xf32>
// STAGE2-NEXT:  %[[L1:.*]]:3 = call @layer.backward({{.*}}, %[[H]]#0, %[[Z1]]#0, %[[Z1]]#1)
// STAGE2-NEXT:  zero.reduce_scatter @layer1 wire f32(%[[L1]]#1, %[[L1]]#2 : tensor<8x8xf32>, tensor<8xf32>)
// STAGE2-NEXT:  %[[Z0:.*]]:2 = zero.gradients @layer0
// STAGE2-NEXT:  %[[L0:.*]]:3 = call @layer.backward({{.*}}, %[[L1]]#0, %[[Z0]]#0, %[[Z0]]#1)
// STAGE2-NEXT:  zero.reduce_scatter @layer0 wire f32(%[[L0]]#1, %[[L0]]#2 :
// STAGE2-NEXT:  %[[ZT2:.*]] = zero.gradients @tied
// STAGE2-NEXT:  %[[E:.*]] = call @embed.backward({{.*}}, %[[L0]]#0, %[[ZT2]])
// STAGE2-NEXT:  zero.reduce_scatter @tied wire f32(%[[E]] :
// STAGE2-NEXT:  return
// STAGE2-NOT:   func.func @train_last

// Stage 3 gathers as well, for each unit anew: for @layer0 twice, forward and
// backward. Neighbours that use one bucket gather it once: @head and
// @head.backward.
// STAGE3-LABEL: func.func @train(
// STAGE3-NOT:   nn.get_parameter
// STAGE3:       %[[WTE:.*]] = zero.all_gather @tied wire f32 : tensor<16x8xbf16>
// STAGE3-NEXT:  call @embed(%{{.*}}, %[[WTE]])
// STAGE3-NEXT:  %[[P0:.*]]:2 = zero.all_gather @layer0 wire f32 : tensor<8x8xbf16>, tensor<8xbf16>
// STAGE3-NEXT:  call @layer(%{{.*}}, %[[P0]]#0, %[[P0]]#1)
// STAGE3-NEXT:  %[[P1:.*]]:2 = zero.all_gather @layer1
// STAGE3-NEXT:  call @layer(%{{.*}}, %[[P1]]#0, %[[P1]]#1)
// STAGE3-NEXT:  %[[WTE2:.*]] = zero.all_gather @tied
// STAGE3-NEXT:  call @head(%{{.*}}, %[[WTE2]])
// STAGE3-NEXT:  %[[ZT:.*]] = zero.gradients @tied
// STAGE3-NEXT:  %[[H:.*]]:2 = call @head.backward(%{{.*}}, %[[WTE2]], %{{.*}}, %[[ZT]])
// STAGE3-NEXT:  zero.reduce_scatter @tied
// STAGE3-NEXT:  %[[P1B:.*]]:2 = zero.all_gather @layer1
// STAGE3-NEXT:  zero.gradients @layer1
// STAGE3-NEXT:  call @layer.backward(%{{.*}}, %[[P1B]]#0,
// STAGE3-NEXT:  zero.reduce_scatter @layer1
// STAGE3-NEXT:  %[[P0B:.*]]:2 = zero.all_gather @layer0
// STAGE3-NEXT:  zero.gradients @layer0
// STAGE3-NEXT:  call @layer.backward(%{{.*}}, %[[P0B]]#0,
// STAGE3-NEXT:  zero.reduce_scatter @layer0
// STAGE3-NEXT:  zero.gradients @tied
// STAGE3-NEXT:  call @embed.backward
// STAGE3-NEXT:  zero.reduce_scatter @tied
// STAGE3-NEXT:  return
// STAGE3-NOT:   func.func @train_last
func.func @train(%ids: tensor<?x4xi32>, %dloss: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xbf16>
  %w0 = nn.get_parameter @w0 : tensor<8x8xbf16>
  %b0 = nn.get_parameter @b0 : tensor<8xbf16>
  %w1 = nn.get_parameter @w1 : tensor<8x8xbf16>
  %b1 = nn.get_parameter @b1 : tensor<8xbf16>
  %0 = call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xbf16>) -> tensor<?x4x8xbf16>
  %1 = call @layer(%0, %w0, %b0) : (tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x4x8xbf16>
  %2 = call @layer(%1, %w1, %b1) : (tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<?x4x8xbf16>
  %loss = call @head(%2, %wte) : (tensor<?x4x8xbf16>, tensor<16x8xbf16>) -> tensor<?x4xf32>
  %gt = nn.get_gradient @wte : tensor<16x8xf32>
  %3:2 = call @head.backward(%2, %wte, %dloss, %gt) : (tensor<?x4x8xbf16>, tensor<16x8xbf16>, tensor<?x4xf32>, tensor<16x8xf32>) -> (tensor<?x4x8xbf16>, tensor<16x8xf32>)
  %gw1 = nn.get_gradient @w1 : tensor<8x8xf32>
  %gb1 = nn.get_gradient @b1 : tensor<8xf32>
  %4:3 = call @layer.backward(%1, %w1, %3#0, %gw1, %gb1) : (tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<?x4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>)
  nn.set_gradient @w1, %4#1 : tensor<8x8xf32>
  nn.set_gradient @b1, %4#2 : tensor<8xf32>
  %gw0 = nn.get_gradient @w0 : tensor<8x8xf32>
  %gb0 = nn.get_gradient @b0 : tensor<8xf32>
  %5:3 = call @layer.backward(%0, %w0, %4#0, %gw0, %gb0) : (tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<?x4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xbf16>, tensor<8x8xf32>, tensor<8xf32>)
  nn.set_gradient @w0, %5#1 : tensor<8x8xf32>
  nn.set_gradient @b0, %5#2 : tensor<8xf32>
  %6 = call @embed.backward(%ids, %5#0, %3#1) : (tensor<?x4xi32>, tensor<?x4x8xbf16>, tensor<16x8xf32>) -> tensor<16x8xf32>
  nn.set_gradient @wte, %6 : tensor<16x8xf32>
  return %loss : tensor<?x4xf32>
}

// The other functions read the copies, but where there are none.
// ALL-LABEL:   func.func @evaluate(
// STAGE0-NOT:  zero.
// STAGE1-NOT:  zero.
// STAGE2-NOT:  zero.
// STAGE3-NEXT: %[[WTE:.*]] = zero.all_gather @tied
// STAGE3-NEXT: call @embed(%{{.*}}, %[[WTE]])
// STAGE3-NEXT: call @head(%{{.*}}, %[[WTE]])
func.func @evaluate(%ids: tensor<?x4xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xbf16>
  %0 = call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xbf16>) -> tensor<?x4x8xbf16>
  %1 = call @head(%0, %wte) : (tensor<?x4x8xbf16>, tensor<16x8xbf16>) -> tensor<?x4xf32>
  return %1 : tensor<?x4xf32>
}

// The norm needs all gradients, and is needed by all updates. Stages 1 and 2
// then refresh the copies.
// ALL-LABEL:   func.func @update()
// ALL-NEXT:    zero.norm{{$}}
// STAGE0-NEXT: zero.adamw @tied
// STAGE0-NEXT: zero.adamw @layer0
// STAGE0-NEXT: zero.adamw @layer1
// STAGE1-NEXT: zero.adamw @tied
// STAGE1-NEXT: zero.all_gather @tied wire f32{{$}}
// STAGE1-NEXT: zero.adamw @layer0
// STAGE1-NEXT: zero.all_gather @layer0 wire f32{{$}}
// STAGE1-NEXT: zero.adamw @layer1
// STAGE1-NEXT: zero.all_gather @layer1 wire f32{{$}}
// STAGE2-NEXT: zero.adamw @tied
// STAGE2-NEXT: zero.all_gather @tied wire f32{{$}}
// STAGE2-NEXT: zero.adamw @layer0
// STAGE2-NEXT: zero.all_gather @layer0 wire f32{{$}}
// STAGE2-NEXT: zero.adamw @layer1
// STAGE2-NEXT: zero.all_gather @layer1 wire f32{{$}}
// STAGE3-NEXT: zero.adamw @tied
// STAGE3-NEXT: zero.adamw @layer0
// STAGE3-NEXT: zero.adamw @layer1
// ALL-NEXT:    return
}

// -----

// Two units in a row share a bucket, as small ones do that were merged: one
// gather and one reduction serve both, in the order of the bucket, whichever is
// used first. f16 gradients carry a loss scale, which reductions divide by.

// STAGE0-LABEL: func.func @train_last(
// STAGE0:       zero.all_reduce @both wire f32 unscale{{$}}
// STAGE1-LABEL: func.func @train_last(
// STAGE1:       zero.reduce_scatter @both wire f32 unscale{{$}}
// STAGE2-LABEL: func.func @train(
// STAGE2:       %[[Z:.*]]:2 = zero.gradients @both : tensor<8xf32>, tensor<4xf32>
// STAGE2-NEXT:  %[[B:.*]] = call @f.backward(%{{.*}}, %[[Z]]#1)
// STAGE2-NEXT:  %[[A:.*]] = call @g.backward(%{{.*}}, %[[Z]]#0)
// STAGE2-NEXT:  zero.reduce_scatter @both wire f32 unscale(%[[A]], %[[B]] : tensor<8xf32>, tensor<4xf32>)
// STAGE3-LABEL: func.func @train(
// STAGE3-NEXT:  %[[P:.*]]:2 = zero.all_gather @both wire f16 : tensor<8xf16>, tensor<4xf16>
// STAGE3-NEXT:  call @f(%{{.*}}, %[[P]]#1)
// STAGE3-NEXT:  call @g(%{{.*}}, %[[P]]#0)
// STAGE3-NEXT:  zero.gradients @both
// STAGE3-NOT:   zero.all_gather
// ALL-LABEL:    func.func @update()
// ALL-NEXT:     zero.norm{{$}}

module {
  zero.program "gpu" target "cuda:sm_70" precision f16 wire f16 gradient_wire f32 recompute "keep" stage STAGE world_size 2
nn.parameter @a : tensor<8xf32> ones
nn.parameter @b : tensor<4xf32> ones
zero.bucket @both [@a, @b] bounds [0, 32, 64]
func.func private @f(tensor<?x8xf32>, tensor<4xf16>) -> tensor<?x8xf32> attributes {nn.unit}
func.func private @g(tensor<?x8xf32>, tensor<8xf16>) -> tensor<?x8xf32> attributes {nn.unit}
func.func private @f.backward(tensor<?x8xf32>, tensor<4xf32> {nn.gradient}) -> tensor<4xf32> attributes {nn.unit}
func.func private @g.backward(tensor<?x8xf32>, tensor<8xf32> {nn.gradient}) -> tensor<8xf32> attributes {nn.unit}
func.func @train(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %a = nn.get_parameter @a : tensor<8xf16>
  %b = nn.get_parameter @b : tensor<4xf16>
  %0 = call @f(%x, %b) : (tensor<?x8xf32>, tensor<4xf16>) -> tensor<?x8xf32>
  %1 = call @g(%0, %a) : (tensor<?x8xf32>, tensor<8xf16>) -> tensor<?x8xf32>
  %gb = nn.get_gradient @b : tensor<4xf32>
  %2 = call @f.backward(%1, %gb) : (tensor<?x8xf32>, tensor<4xf32>) -> tensor<4xf32>
  nn.set_gradient @b, %2 : tensor<4xf32>
  %ga = nn.get_gradient @a : tensor<8xf32>
  %3 = call @g.backward(%1, %ga) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  nn.set_gradient @a, %3 : tensor<8xf32>
  return %1 : tensor<?x8xf32>
}
}

// -----

// What a unit's backward pass reads depends on what it recomputes: @f.backward
// has kept what it needs, but on a type that recomputes it would read @v. Where
// there are both, all types gather what any may need, in the order of the
// gradients.

// ALL-LABEL: func.func @train(
// STAGE3-NEXT:  %[[V:.*]] = zero.all_gather @second
// STAGE3-NEXT:  %[[W:.*]] = zero.all_gather @first
// STAGE3-NEXT:  call @f(%{{.*}}, %[[V]], %[[W]])
// STAGE3-NEXT:  zero.all_gather @third
// STAGE3-NEXT:  zero.gradients @third
// STAGE3-NEXT:  call @g
// STAGE3-NEXT:  zero.reduce_scatter @third
// STAGE3-NEXT:  %[[V2:.*]] = zero.all_gather @second
// STAGE3-NEXT:  %[[W2:.*]] = zero.all_gather @first
// STAGE3-NEXT:  zero.gradients
// STAGE3-NEXT:  zero.gradients
// STAGE3-NEXT:  call @f.backward(%{{.*}}, %[[W2]], %{{.*}}, %{{.*}})

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage STAGE world_size 2 mixed_recompute
nn.parameter @w : tensor<8xf32> ones
nn.parameter @v : tensor<8xf32> ones
nn.parameter @u : tensor<8xf32> ones
zero.bucket @first [@w] bounds [0, 16, 32]
zero.bucket @second [@v] bounds [0, 16, 32]
zero.bucket @third [@u] bounds [0, 16, 32]
func.func private @f(tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32> attributes {nn.unit}
func.func private @g(tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32> {nn.gradient}) -> (tensor<?x8xf32>, tensor<8xf32>) attributes {nn.unit}
func.func private @f.backward(tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32> {nn.gradient}, tensor<8xf32> {nn.gradient}) -> (tensor<8xf32>, tensor<8xf32>) attributes {nn.unit}
func.func @train(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %w = nn.get_parameter @w : tensor<8xf32>
  %v = nn.get_parameter @v : tensor<8xf32>
  %u = nn.get_parameter @u : tensor<8xf32>
  %0 = call @f(%x, %v, %w) : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %gu = nn.get_gradient @u : tensor<8xf32>
  %1:2 = call @g(%0, %u, %gu) : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x8xf32>, tensor<8xf32>)
  nn.set_gradient @u, %1#1 : tensor<8xf32>
  %gw = nn.get_gradient @w : tensor<8xf32>
  %gv = nn.get_gradient @v : tensor<8xf32>
  %2:2 = call @f.backward(%1#0, %w, %gv, %gw) : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  nn.set_gradient @v, %2#0 : tensor<8xf32>
  nn.set_gradient @w, %2#1 : tensor<8xf32>
  return %1#0 : tensor<?x8xf32>
}
}

// -----

// One rank, and hence no collective in any stage. Nothing has divided by the
// loss scale before the norm.

// ALL-LABEL: func.func @train(
// ALL-NOT:   zero.
// ALL-LABEL: func.func @update()
// ALL-NEXT:  zero.norm unscale
// ALL-NEXT:  zero.adamw @bucket
// ALL-NEXT:  return
// ALL-NOT:   @train_last

module {
  zero.program "gpu" target "cuda:sm_70" precision f16 wire f16 gradient_wire f32 recompute "keep" stage STAGE world_size 1
nn.parameter @w : tensor<8xf32> ones
zero.bucket @bucket [@w] bounds [0, 32]
func.func private @f(tensor<?x8xf32>, tensor<8xf16>, tensor<8xf32> {nn.gradient}) -> tensor<8xf32> attributes {nn.unit}
func.func @train(%x: tensor<?x8xf32>) {
  %w = nn.get_parameter @w : tensor<8xf16>
  %g = nn.get_gradient @w : tensor<8xf32>
  %0 = call @f(%x, %w, %g) : (tensor<?x8xf32>, tensor<8xf16>, tensor<8xf32>) -> tensor<8xf32>
  nn.set_gradient @w, %0 : tensor<8xf32>
  return
}
}

// -----

// The machine at hand: no plan has been made, so there are no bounds either.

// ALL-LABEL: func.func @train(
// ALL-NOT:   zero.
// ALL-LABEL: func.func @update()
// ALL-NEXT:  zero.norm{{$}}
// ALL-NEXT:  zero.adamw @bucket
// ALL-NEXT:  return

nn.parameter @w : tensor<8xf32> ones
zero.bucket @bucket [@w]
func.func @train(%x: tensor<?x8xf32>) {
  return
}

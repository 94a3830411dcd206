// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --split-input-file | FileCheck %s

// Every activation is 4*8 f32, 128 bytes a sample.

func.func private @negate(tensor<?x4x8xf32>) -> (tensor<?x4x8xf32> {nn.reuse = array<i64: 0>})
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64}
func.func private @sum(tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64}

// @negate takes over the buffer of what it reads, which nobody reads after it;
// the next linear op lives beside it, as @sum reads both. The result of a unit
// is its caller's business.
// CHECK-LABEL: func @block
// CHECK-SAME: nn.scratch_bytes = 256 : i64
// CHECK: nn.linear {{.*}} {nn.offsets = array<i64: [[A:[0-9]+]]>}
// CHECK: call @negate{{.*}} {nn.offsets = array<i64: [[A]]>}
// CHECK-NOT: nn.offsets = array<i64: [[A]]>
// CHECK: nn.linear {{.*}} {nn.offsets = array<i64: {{0|128}}>}
// CHECK: call @sum{{.*}} {nn.offsets = array<i64: -1>}
func.func @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @negate(%0) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.linear %1, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %3 = call @sum(%1, %2) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %3 : tensor<?x4x8xf32>
}

// %0 is read again below: its buffer cannot be taken over.
// CHECK-LABEL: func @keep
// CHECK-SAME: nn.scratch_bytes = 256 : i64
// CHECK: nn.linear {{.*}} {nn.offsets = array<i64: [[A:[0-9]+]]>}
// CHECK-NOT: nn.offsets = array<i64: [[A]]>
// CHECK: call @negate{{.*}} {nn.offsets = array<i64: {{0|128}}>}
func.func @keep(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @negate(%0) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %2 = call @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

// A step: its input lies at 0. Each call of the unit gets its 256 bytes of
// scratch in the same place, which is free in between; its results are beside.
// The result may lie where the scratch was.
// CHECK-LABEL: func @infer
// CHECK-SAME: nn.input_offsets = array<i64: 0>, nn.result_offset = [[R:[0-9]+]] : i64
// CHECK: call @block{{.*}} nn.scratch = [[S:[0-9]+]] : i64}
// CHECK: call @block{{.*}} nn.scratch = [[S]] : i64}
// CHECK: call @sum{{.*}} {nn.offsets = array<i64: [[R]]>}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = call @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02

// -----

// The bytes of a sample: input, scratch and two results, none of which can
// share. Library scratch lies behind weights and gradients and ends the fixed
// region.

// CHECK: module attributes {nn.memory = {fixed = {{[0-9]+}} : i64,
// CHECK-SAME: live_per_sample = 640 : i64, live_transient_bytes = 0 : i64,
// CHECK-SAME: per_sample = 640 : i64, scratch_bytes = {{[0-9]+}} : i64,
// CHECK-SAME: scratch_offset = 512 : i64, transient_bytes = 0 : i64,
// CHECK-SAME: transient_offset = 512 : i64}}
func.func @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = call @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
func.func private @sum(tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = call @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @bucket [@w]

// -----

// The longest list of inputs is reserved for all steps, which lie at the same
// offsets: 4 i32 is 16 bytes, rounded up to 64.

// CHECK-LABEL: func @train
// CHECK-SAME: nn.input_offsets = array<i64: 0, 64, 128>
// CHECK: nn.linear {{.*}} {nn.offsets = array<i64: 256>}
func.func @train(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
// CHECK-LABEL: func @evaluate
// CHECK-SAME: nn.input_offsets = array<i64: 0>
// CHECK: nn.linear {{.*}} {nn.offsets = array<i64: 256>}
func.func @evaluate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02

// -----

// A gradient is accumulated where it lies: no buffer of its own.

// CHECK-LABEL: func @backward
// CHECK: nn.linear_grad_weight {{.*}} {nn.offsets = array<i64: -1>}
// CHECK: call @bias_grad({{.*}}) {nn.offsets = array<i64: -1>}
func.func @backward(%dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>, %dw: tensor<8x8xf32> {nn.gradient}, %db: tensor<8xf32> {nn.gradient})
    -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.unit} {
  %0 = nn.linear_grad_weight %dy, %x into %dw : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @bias_grad(%dy, %db) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}
func.func private @bias_grad(tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<8xf32> {nn.inplace = 1 : i64})
    attributes {nn.kernel = "columns", nn.parts = 8 : i64}

// CHECK-LABEL: func @backward_of_both
// CHECK: nn.linear_grad_weight_bias {{.*}} {nn.offsets = array<i64: -1, -1>}
func.func @backward_of_both(%dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>, %dw: tensor<8x8xf32> {nn.gradient}, %db: tensor<8xf32> {nn.gradient})
    -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.unit} {
  %0:2 = nn.linear_grad_weight_bias %dy, %x into %dw bias %db : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// The result of a unit may take over the buffer of the unit's argument if its
// caller has no more use for it: recorded on the unit, and used by the caller
// at the second call, whose argument is dead by then, but not at the first,
// where it is an input.

// CHECK-LABEL: func @unit
// CHECK-SAME: -> (tensor<?x4x8xf32> {nn.reuse = array<i64: 0>})
func.func @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = call @negate(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @negate(tensor<?x4x8xf32>) -> (tensor<?x4x8xf32> {nn.reuse = array<i64: 0>})
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64}
// CHECK-LABEL: func @infer
// CHECK: call @unit{{.*}} {nn.offsets = array<i64: 128>
// CHECK: call @unit{{.*}} {nn.offsets = array<i64: 128>
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = call @unit(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @unit(%0) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// -----

// Gathered parameters and the gradients of a micro-step lie in the transient
// part of the fixed region as long as they are used, and share it: each bucket
// has 64 elements, 256 bytes, and @b's gather is dead when the gradients are
// zeroed, @a's is not. In stage 3, buckets have no copies of their own. Library
// scratch is behind.

// CHECK: module attributes {nn.memory = {{{.*}} live_transient_bytes = 512 : i64,
// CHECK-SAME: scratch_offset = 512 : i64, transient_bytes = 512 : i64, transient_offset = 0 : i64}
// CHECK: zero.bucket @a [@w] bounds [0, 32, 64] {nn.places = array<i64: -1, -1, 0>}
// CHECK-LABEL: func @train
// CHECK: zero.all_gather @a wire f32 {nn.transient = [[A:0|256]] : i64}
// CHECK: zero.all_gather @b wire f32 {nn.transient = [[B:0|256]] : i64}
// CHECK-NOT: nn.transient = [[A]]
// CHECK: zero.gradients @a {nn.transient = [[B]] : i64}
// CHECK: nn.linear_grad_weight {{.*}} {nn.offsets = array<i64: -1>}
// CHECK: zero.reduce_scatter @a wire f32({{.*}}){{$}}
module attributes {zero.program = {stage = 3, world_size = 2}} {
nn.parameter @w : tensor<8x8xf32> ones
nn.parameter @v : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
zero.bucket @b [@v] bounds [0, 32, 64]
func.func @train(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = zero.all_gather @a wire f32 : tensor<8x8xf32>
  %v = zero.all_gather @b wire f32 : tensor<8x8xf32>
  %0 = nn.linear %x, %v : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %g = zero.gradients @a : tensor<8x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.linear_grad_weight %1, %x into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  zero.reduce_scatter @a wire f32 (%2 : tensor<8x8xf32>)
  return %1 : tensor<?x4x8xf32>
}
}

// -----

// A collective that is under way holds its buffer: the gradients of @a until
// its wait, the gather of @b from its start on. The gather of @a comes when both
// are over and takes one of their places. A collective on copies or running
// gradients needs none. Working copies are bf16 here, 128 bytes a bucket beside
// 256 of gradients.

// CHECK: module attributes {nn.memory = {{{.*}} live_transient_bytes = 384 : i64,
// CHECK-SAME: transient_bytes = 384 : i64
// CHECK-LABEL: func @train
// CHECK: zero.gradients @a {nn.transient = [[G:0|128]] : i64}
// CHECK: zero.start reduce_scatter @a wire f32(
// CHECK-NOT: nn.transient = [[G]] : i64
// CHECK: zero.start all_gather @b wire f32 transient {nn.transient = {{0|256}} : i64}
// CHECK: zero.start reduce_scatter @b wire f32{{$}}
// CHECK: zero.start all_gather @a wire f32 transient {nn.transient = 0 : i64}
module attributes {zero.program = {stage = 3, world_size = 2}} {
nn.parameter @w : tensor<8x8xf32> ones
nn.parameter @v : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
zero.bucket @b [@v] bounds [0, 32, 64]
func.func @train(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %g = zero.gradients @a : tensor<8x8xf32>
  %0 = nn.linear_grad_weight %x, %x into %g : (tensor<?x4x8xbf16>, tensor<?x4x8xbf16>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t0 = zero.start reduce_scatter @a wire f32 (%0 : tensor<8x8xf32>)
  %t1 = zero.start all_gather @b wire f32 transient
  zero.wait %t0
  %v = zero.wait %t1 : tensor<8x8xbf16>
  %1 = nn.linear %x, %v : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  %t2 = zero.start reduce_scatter @b wire f32
  zero.wait %t2
  %t3 = zero.start all_gather @a wire f32 transient
  %w = zero.wait %t3 : tensor<8x8xbf16>
  %2 = nn.linear %1, %w : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  return %2 : tensor<?x4x8xbf16>
}
}

// -----

// Stage 2 keeps copies but no gradients; stages 0 and 1 keep both, like a rank
// that is alone.

// CHECK: zero.bucket @a [@w] bounds [0, 32, 64] {nn.places = array<i64: 0, -1, 0>}
module attributes {zero.program = {stage = 2, world_size = 2}} {
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
}

// -----

// CHECK: zero.bucket @a [@w] bounds [0, 32, 64] {nn.places = array<i64: 0, 256, 0>}
module attributes {zero.program = {stage = 1, world_size = 2}} {
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
}

// -----

// CHECK: zero.bucket @a [@w] bounds [0, 64] {nn.places = array<i64: 0, 256, 0>}
module attributes {zero.program = {stage = 3, world_size = 1}} {
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 64]
}

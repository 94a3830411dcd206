// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --split-input-file | FileCheck %s
// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --split-input-file --remarks-filter=plan-memory \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Every activation is 4*8 f32, 128 bytes a sample.

exec.kernel @negate(%a0: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    rows 4 per_sample reuse [array<i64: 0>] {
  exec.yield %a0 : tensor<?x4x8xf32>
}
exec.kernel @sum(%a0: tensor<?x4x8xf32>, %a1: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    rows 4 per_sample {
  exec.yield %a0 : tensor<?x4x8xf32>
}

// @negate takes over the buffer of what it reads, which nobody reads after it;
// the next linear op lives beside it, as @sum reads both. The result of a unit
// is its caller's business.
// CHECK-LABEL: exec.function unit @block(
// CHECK-SAME: %[[X:[^:]+]]: memref<?x4x8xf32>, %[[W:[^:]+]]: memref<8x8xf32>, %[[Y:[^:]+]]: memref<?x4x8xf32>) scratch 256 {
// CHECK-NEXT: %[[A:.+]] = exec.buffer scratch at [[OFFSET:0|128]] : memref<?x4x8xf32>
// CHECK-NEXT: exec.product %[[X]], %[[W]] into %[[A]] trans_b
// CHECK-NEXT: exec.dispatch @negate(%[[A]], %[[A]])
// CHECK-NOT: at [[OFFSET]]
// CHECK-NEXT: %[[B:.+]] = exec.buffer scratch at {{0|128}} : memref<?x4x8xf32>
// CHECK-NEXT: exec.product %[[A]], %[[W]] into %[[B]] trans_b
// CHECK-NEXT: exec.dispatch @sum(%[[A]], %[[B]], %[[Y]])
// CHECK-NEXT: exec.end
// CHECK-NEXT: exec.end
// CHECK-NEXT: exec.return
// REMARK: remark: [Analysis] Region | Category:plan-memory | Function=block | Buffers=2, Bytes=256, LiveBytes=256, Region=batch
// REMARK: remark: [Analysis] Buffer | Category:plan-memory | Function=block | Buffer=2, Bytes=128, FirstStep=1, LastStep=4, Offset=0, Op=nn.linear, Reason="it is at the start of the region", Region=batch
// REMARK: remark: [Analysis] Buffer | Category:plan-memory | Function=block | Buffer=3, Bytes=128, FirstStep=3, LastStep=4, Offset=128, Op=nn.linear, Reason="buffer 2 of nn.linear, which is alive in steps 1 to 4, ends there", Region=batch
func.func @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = exec.dispatch @negate(%0) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.linear %1, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %3 = exec.dispatch @sum(%1, %2) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %3 : tensor<?x4x8xf32>
}

// %0 is read again below: its buffer cannot be taken over.
// CHECK-LABEL: exec.function unit @keep(
// CHECK-SAME: scratch 256 {
// CHECK: %[[A:.+]] = exec.buffer scratch at [[OFFSET:0|128]]
// CHECK-NOT: at [[OFFSET]]
// CHECK: %[[B:.+]] = exec.buffer scratch at {{0|128}}
// CHECK-NEXT: exec.dispatch @negate(%[[A]], %[[B]])
func.func @keep(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = exec.dispatch @negate(%0) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %2 = exec.dispatch @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

// A step: its input lies at 0. Each call of the unit gets its 256 bytes of
// scratch in the same place, which is free in between; its results are beside.
// The result may lie where the scratch was.
// CHECK-LABEL: exec.function step @infer
// CHECK-SAME: () inputs <ids = 0> result [[R:[0-9]+]] : memref<?x4x8xf32> {
// CHECK: %[[X:.+]] = exec.buffer batch at 0 : memref<?x4x8xf32>
// CHECK: %[[W:.+]] = exec.buffer fixed at 0 : memref<8x8xf32>
// CHECK: %[[S:.+]] = exec.buffer batch at [[SCRATCH:[0-9]+]] : memref<?x256xi8>
// CHECK-NEXT: exec.call @block(%[[X]], %[[W]], %[[A:[^)]+]]) scratch %[[S]]
// CHECK-NEXT: exec.end %[[S]]
// CHECK: %[[S:.+]] = exec.buffer batch at [[SCRATCH]] : memref<?x256xi8>
// CHECK-NEXT: exec.call @block(%[[A]], %[[W]], %[[B:[^)]+]]) scratch %[[S]]
// CHECK: %[[C:.+]] = exec.buffer batch at [[R]] : memref<?x4x8xf32>
// CHECK-NEXT: exec.dispatch @sum(%[[A]], %[[B]], %[[C]])
// REMARK: remark: [Analysis] Arena | Category:plan-memory | BytesPerSample=640, CopiesBytes=512, FixedBytes=512, LiveBytesPerSample=640, ScratchBytes=0, TransientBytes=0
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = exec.dispatch @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @bucket [@w]

// -----

// The bytes of a sample: input, scratch and two results, none of which can
// share. Library scratch lies behind weights and gradients and ends the fixed
// region.

// CHECK: exec.arena fixed 512 per_sample 640 live 640 transient 512 bytes 0 live 0 scratch 512 bytes 0
func.func @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = exec.dispatch @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
exec.kernel @sum(%a0: tensor<?x4x8xf32>, %a1: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    rows 4 per_sample {
  exec.yield %a0 : tensor<?x4x8xf32>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = exec.dispatch @sum(%0, %1) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @bucket [@w]

// -----

// The longest list of inputs is reserved for all steps, which lie at the same
// offsets: 4 i32 is 16 bytes, rounded up to 64.

// CHECK-LABEL: exec.function step @train() inputs <ids = 0, targets = 64, keys = 128> result 256 : memref<?x4x8xf32> {
func.func @train(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
// CHECK-LABEL: exec.function step @evaluate() inputs <ids = 0> result 256 : memref<?x4x8xf32> {
func.func @evaluate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> normal std 0.02
zero.bucket @bucket [@w]

// -----

// A gradient is accumulated where it lies: no buffer of its own.

// CHECK-LABEL: exec.function unit @backward(
// CHECK-SAME: %[[DY:[^:]+]]: memref<?x4x8xf32>, %[[X:[^:]+]]: memref<?x4x8xf32>, %[[DW:[^:]+]]: memref<8x8xf32>, %[[DB:[^:]+]]: memref<8xf32>) scratch 0 {
// CHECK-NEXT: exec.product %[[DY]], %[[X]] into %[[DW]]
// CHECK-NEXT: exec.dispatch @bias_grad(%[[DY]], %[[DB]])
// CHECK-NEXT: exec.return
func.func @backward(%dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>, %dw: tensor<8x8xf32> {nn.gradient}, %db: tensor<8xf32> {nn.gradient})
    -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.unit} {
  %0 = nn.linear_grad_weight %dy, %x into %dw : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = exec.dispatch @bias_grad(%dy, %db) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8x8xf32>, tensor<8xf32>
}
exec.kernel @bias_grad(%a0: tensor<?x4x8xf32>, %a1: tensor<8xf32>) -> tensor<8xf32>
    columns 8 in_place [1] {
  exec.yield %a1 : tensor<8xf32>
}

// CHECK-LABEL: exec.function unit @backward_of_both(
// CHECK-SAME: %[[DY:[^:]+]]: memref<?x4x8xf32>, %[[X:[^:]+]]: memref<?x4x8xf32>, %[[DW:[^:]+]]: memref<8x8xf32>, %[[DB:[^:]+]]: memref<8xf32>) scratch 0 {
// CHECK-NEXT: exec.product %[[DY]], %[[X]] aux %[[DB]] into %[[DW]] epilogue bias_grad_a
// CHECK-NEXT: exec.return
func.func @backward_of_both(%dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>, %dw: tensor<8x8xf32> {nn.gradient}, %db: tensor<8xf32> {nn.gradient})
    -> (tensor<8x8xf32>, tensor<8xf32>) attributes {nn.unit} {
  %0:2 = nn.linear_grad_weight_bias %dy, %x into %dw bias %db : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> (tensor<8x8xf32>, tensor<8xf32>)
  return %0#0, %0#1 : tensor<8x8xf32>, tensor<8xf32>
}

// -----

// The result of a unit may take over the buffer of the unit's argument if its
// caller has no more use for it: so at the second call, whose argument is dead
// by then, but not at the first, where it is an input.

func.func @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = exec.dispatch @negate(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
exec.kernel @negate(%a0: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    rows 4 per_sample reuse [array<i64: 0>] {
  exec.yield %a0 : tensor<?x4x8xf32>
}
// CHECK-LABEL: exec.function step @infer() inputs <ids = 0> result 128
// CHECK: %[[X:.+]] = exec.buffer batch at 0
// CHECK: %[[Y:.+]] = exec.buffer batch at 128
// CHECK: exec.call @unit(%[[X]], %[[Y]])
// CHECK: exec.call @unit(%[[Y]], %[[Y]])
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

// CHECK: exec.arena {{.*}} transient 0 bytes 512 live 512 scratch 512
// CHECK: exec.copies @a f32{{$}}
// CHECK-LABEL: exec.function step @train
// CHECK: %[[A:.+]] = exec.buffer transient at [[AT_A:0|256]] : memref<64xf32>
// CHECK-NEXT: %[[T:.+]] = exec.start all_gather @a wire f32 %[[A]] transient
// CHECK-NEXT: exec.wait %[[T]]
// CHECK: %[[B:.+]] = exec.buffer transient at [[AT_B:0|256]] : memref<64xf32>
// CHECK: exec.end %[[B]]
// CHECK: %[[G:.+]] = exec.buffer transient at [[AT_B]] : memref<64xf32>
// CHECK-NEXT: exec.zero %[[G]]
// CHECK-NEXT: %[[DW:.+]] = exec.view %[[G]] at 0 : memref<64xf32> to memref<8x8xf32>
// CHECK: exec.end %[[A]]
// CHECK: exec.product {{.*}} into %[[DW]]
// CHECK-NEXT: %[[T:.+]] = exec.start reduce_scatter @a wire f32 %[[G]] transient
// CHECK-NEXT: exec.wait %[[T]]
// CHECK-NEXT: exec.end %[[G]]
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
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
// are over and takes one of their places. Working copies are bf16 here, 128 bytes a bucket beside
// 256 of gradients.

// CHECK: exec.arena {{.*}} bytes 384 live 384 scratch
// CHECK-LABEL: exec.function step @train
// CHECK: %[[G:.+]] = exec.buffer transient at {{0|128}} : memref<64xf32>
// CHECK: %[[T0:.+]] = exec.start reduce_scatter @a wire f32 %[[G]] transient
// CHECK-NEXT: %[[B:.+]] = exec.buffer transient at {{0|256}} : memref<64xbf16>
// CHECK-NEXT: %[[T1:.+]] = exec.start all_gather @b wire f32 %[[B]] transient
// CHECK-NEXT: exec.wait %[[T0]]
// CHECK-NEXT: exec.end %[[G]]
// CHECK-NEXT: exec.wait %[[T1]]
// CHECK-NEXT: exec.view %[[B]] at 0
// CHECK: exec.buffer transient at 0 : memref<64xbf16>
// CHECK-NEXT: exec.start all_gather @a
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
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
  %t3 = zero.start all_gather @a wire f32 transient
  %w = zero.wait %t3 : tensor<8x8xbf16>
  %2 = nn.linear %1, %w : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  return %2 : tensor<?x4x8xbf16>
}
}

// -----

// Stage 2 keeps copies but no gradients; stages 0 and 1 keep both, like a rank
// that is alone.

// CHECK: exec.copies @a f32 working 0{{$}}
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
}

// -----

// CHECK: exec.copies @a f32 working 0 gradient 256
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
}

// -----

// CHECK: exec.copies @a f32 working 0 gradient 256
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 1
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 64]
}

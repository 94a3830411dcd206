// RUN: poplar-opt %s --lower-program --split-input-file | FileCheck %s

// A unit becomes a function of context, scratch, batch, its arguments and its
// results: temporaries lie in scratch, at offsets times the batch. Equal GEMMs
// share a descriptor (m n k, batched and trans_a, ...), a missing bias is null.
// A kernel is dispatched with its pointers in an array and its parts times the
// batch.

// CHECK-DAG: llvm.func @poplar_rt_gemm(
// CHECK-DAG: llvm.func @poplar_rt_dispatch(
// CHECK-DAG: llvm.mlir.global internal constant @[[$GEMM:gemm[_0-9]*]](dense<[4, 8, 8, 1, 1, 0, 0, 0]> : tensor<8xi64>)
// CHECK-NOT: global internal constant
// CHECK-LABEL: func private @block.call(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[SCRATCH:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64, %[[X:[^:]+]]: !llvm.ptr, %[[W:[^:]+]]: !llvm.ptr, %[[Y:[^:]+]]: !llvm.ptr)
// CHECK: %[[N:.+]] = arith.constant 3 : i64
// CHECK: %[[ARRAY:.+]] = llvm.alloca %[[N]] x !llvm.ptr
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GEMM]]
// CHECK: %[[NULL:.+]] = llvm.mlir.zero
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %[[DESC]], %[[X]], %[[W]], %[[NULL]], %{{[^,]+}}, %[[SCRATCH]], %[[B]])
// CHECK: %[[C128:.+]] = arith.constant 128 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C128]]
// CHECK: %[[SECOND:.+]] = llvm.getelementptr %[[SCRATCH]][%[[OFFSET]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GEMM]]
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %[[DESC]], %[[SCRATCH]], %[[W]], %{{.+}}, %{{.+}}, %[[SECOND]], %[[B]])
// CHECK: %[[F:.+]] = constant @sum.body
// CHECK: %[[KERNEL:.+]] = builtin.unrealized_conversion_cast %[[F]]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARRAY]][0]
// CHECK: llvm.store %[[SCRATCH]], %[[SLOT]]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARRAY]][1]
// CHECK: llvm.store %[[SECOND]], %[[SLOT]]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARRAY]][2]
// CHECK: llvm.store %[[Y]], %[[SLOT]]
// CHECK: %[[C4:.+]] = arith.constant 4 : i64
// CHECK: %[[EXTENT:.+]] = arith.muli %[[B]], %[[C4]]
// CHECK: %[[GRAIN:.+]] = arith.constant 1 : i64
// CHECK: llvm.call @poplar_rt_dispatch(%[[CTX]], %[[KERNEL]], %[[ARRAY]], %[[B]], %[[EXTENT]], %[[GRAIN]])
// CHECK: return

// A step: the batch region begins behind the fixed one; inputs and results lie
// in it at offsets times the batch.
// CHECK-LABEL: func @infer.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK: %[[FIXED:.+]] = arith.constant 1024 : i64
// CHECK: %[[REGION:.+]] = llvm.getelementptr %[[ARENA]][%[[FIXED]]]
// CHECK: %[[C64:.+]] = arith.constant 64 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C64]]
// CHECK: %[[X:.+]] = llvm.getelementptr %[[REGION]][%[[OFFSET]]]
// CHECK: %[[C256:.+]] = arith.constant 256 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C256]]
// CHECK: %[[W:.+]] = llvm.getelementptr %[[REGION]][%[[OFFSET]]]
// CHECK: %[[C512:.+]] = arith.constant 512 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C512]]
// CHECK: %[[Y:.+]] = llvm.getelementptr %[[REGION]][%[[OFFSET]]]
// CHECK: %[[C192:.+]] = arith.constant 192 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C192]]
// CHECK: %[[SCRATCH:.+]] = llvm.getelementptr %[[REGION]][%[[OFFSET]]]
// CHECK: call @block.call(%[[CTX]], %[[SCRATCH]], %[[B]], %[[X]], %[[W]], %[[Y]])
// CHECK-NOT: func @infer(
module attributes {nn.memory = {fixed = 1024 : i64, live_per_sample = 640 : i64, per_sample = 640 : i64, scratch_bytes = 0 : i64, scratch_offset = 1024 : i64}} {
  func.func private @sum(tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64}
  func.func private @sum.body(%args: !llvm.ptr, %batch: i64, %begin: i64, %end: i64) {
    return
  }
  func.func @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.unit, nn.scratch_bytes = 256 : i64} {
    %0 = nn.linear %x, %w {nn.offsets = array<i64: 0>} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    %1 = nn.linear %0, %w {nn.offsets = array<i64: 128>} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    %2 = call @sum(%0, %1) {nn.offsets = array<i64: -1>} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    return %2 : tensor<?x4x8xf32>
  }
  func.func @infer(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.input_offsets = array<i64: 64, 256>, nn.result_offset = 512 : i64} {
    %0 = call @block(%x, %w) {nn.offsets = array<i64: 512>, nn.scratch = 192 : i64} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
}

// -----

// The gradient of a bias is where products have their by-products: of the rows
// of the first operand, and with the other layout of the columns of the second.

// CHECK-DAG: llvm.mlir.global internal constant @[[$ROWS:gemm[_0-9]*]](dense<[16, 8, 4, 4294967298, 4294967296, 0, 0, 4]>
// CHECK-DAG: llvm.mlir.global internal constant @[[$COLUMNS:gemm[_0-9]*]](dense<[8, 16, 4, 4294967298, 4294967296, 0, 0, 5]>
// CHECK-LABEL: func private @both.call(
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$ROWS]]
// CHECK: llvm.call @poplar_rt_gemm(%{{[^,]+}}, %[[DESC]], %[[DY:[^,]+]], %[[X:[^,]+]], %{{[^,]+}}, %[[DB:[^,]+]], %{{[^,]+}}, %{{[^,]+}})
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$COLUMNS]]
// CHECK: llvm.call @poplar_rt_gemm(%{{[^,]+}}, %[[DESC]], %[[X]], %[[DY]], %{{[^,]+}}, %[[DB]], %{{[^,]+}}, %{{[^,]+}})
module attributes {nn.memory = {fixed = 4096 : i64, live_per_sample = 128 : i64, per_sample = 128 : i64, scratch_bytes = 0 : i64, scratch_offset = 4096 : i64}} {
  func.func @both(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %dw: tensor<16x8xf32> {nn.gradient}, %dv: tensor<8x16xf32> {nn.gradient}, %db: tensor<16xf32> {nn.gradient})
      -> (tensor<16x8xf32>, tensor<8x16xf32>, tensor<16xf32>) attributes {nn.unit, nn.scratch_bytes = 256 : i64} {
    %0:2 = nn.linear_grad_weight_bias %dy, %x into %dw bias %db {nn.offsets = array<i64: -1, -1>} : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>)
    %1:2 = nn.linear_grad_weight_bias %dy, %x into %dv bias %0#1 layout in_out {nn.offsets = array<i64: -1, -1>} : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
    return %0#0, %1#0, %1#1 : tensor<16x8xf32>, tensor<8x16xf32>, tensor<16xf32>
  }
}

// -----

// Parameters and their gradients are slices of their bucket's, which lie in the
// fixed region: @w follows @v, padded to 32 elements. What accumulates in place
// writes to its operand, and the transposed factor comes first.

// CHECK: llvm.mlir.global internal constant @[[$GEMM:gemm[_0-9]*]](dense<[8, 8, 4, 4294967298, 4294967296, 0, 0, 0]>
// CHECK-LABEL: func @train.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK: %[[C384:.+]] = arith.constant 384 : i64
// CHECK: %[[GRADIENT:.+]] = llvm.getelementptr %[[ARENA]][%[[C384]]]
// CHECK: %[[C2176:.+]] = arith.constant 2176 : i64
// CHECK: %[[W:.+]] = llvm.getelementptr %[[ARENA]][%[[C2176]]]
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GEMM]]
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %[[DESC]], %[[X:[^,]+]], %[[X]], %{{[^,]+}}, %{{[^,]+}}, %[[GRADIENT]], %[[B]])
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %{{[^,]+}}, %[[X]], %[[W]],
module attributes {nn.memory = {fixed = 4096 : i64, live_per_sample = 128 : i64, per_sample = 128 : i64, scratch_bytes = 0 : i64, scratch_offset = 4096 : i64}} {
  nn.parameter @v : tensor<8xf32> ones
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @b [@v, @w] {nn.places = array<i64: 2048, 256, 0>}
  func.func @train(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.input_offsets = array<i64: 0>, nn.result_offset = 128 : i64} {
    %g = nn.get_gradient @w : tensor<8x8xf32>
    %w = nn.get_parameter @w : tensor<8x8xf32>
    %0 = nn.linear_grad_weight %x, %x into %g {nn.offsets = array<i64: -1>} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = nn.linear %x, %w {nn.offsets = array<i64: 128>} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    nn.set_gradient @w, %0 : tensor<8x8xf32>
    return %1 : tensor<?x4x8xf32>
  }
}

// -----

// Attention and embedding gradients are kernels of the library, wrapped with
// their shapes: seq_len 128, 2 heads that share 1, of 4, ... Parts are blocks of
// 64 queries of a head, or columns, and cut at whole cache lines.

// CHECK-DAG: llvm.mlir.global internal constant @attention(dense<[128, 2, 1, 4, 8, 4, 4, 8, 0, 0, 0, 0, 0, 4602678819172646912, 0, 1]>
// CHECK-DAG: llvm.mlir.global internal constant @embedding_grad(dense<[128, 8, -4294967296]>
// CHECK-LABEL: func private @attend.call(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[B:[^:]+]]: i64,
// CHECK: %[[KERNEL:.+]] = llvm.mlir.addressof @poplar_attention_forward.attention
// CHECK: %[[PARTS:.+]] = arith.constant 4 : i64
// CHECK: %[[EXTENT:.+]] = arith.muli %[[B]], %[[PARTS]]
// CHECK: %[[GRAIN:.+]] = arith.constant 1 : i64
// CHECK: llvm.call @poplar_rt_dispatch(%[[CTX]], %[[KERNEL]], %{{.+}}, %[[B]], %[[EXTENT]], %[[GRAIN]])
// CHECK-LABEL: func private @embedding.call(
// CHECK: %[[KERNEL:.+]] = llvm.mlir.addressof @poplar_embedding_grad.embedding_grad
// CHECK: %[[EXTENT:.+]] = arith.constant 8 : i64
// CHECK: %[[GRAIN:.+]] = arith.constant 16 : i64
// CHECK: llvm.call @poplar_rt_dispatch(%{{[^,]+}}, %[[KERNEL]], %{{[^,]+}}, %{{[^,]+}}, %[[EXTENT]], %[[GRAIN]])
// CHECK: llvm.func internal @poplar_attention_forward.attention(
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @attention
// CHECK: llvm.call @poplar_attention_forward(%[[DESC]],
module attributes {nn.memory = {fixed = 1024 : i64, live_per_sample = 0 : i64, per_sample = 0 : i64, scratch_bytes = 0 : i64, scratch_offset = 1024 : i64}} {
  func.func @attend(%q: tensor<?x128x8xf32>, %k: tensor<?x128x4xf32>) -> (tensor<?x128x8xf32>, tensor<?x2x128xf32>) attributes {nn.unit} {
    %0:2 = nn.attention %q, %k, %k causal heads 2 kv_heads 1 scale 0.5 {nn.offsets = array<i64: -1, -1>} : (tensor<?x128x8xf32>, tensor<?x128x4xf32>, tensor<?x128x4xf32>) -> (tensor<?x128x8xf32>, tensor<?x2x128xf32>)
    return %0#0, %0#1 : tensor<?x128x8xf32>, tensor<?x2x128xf32>
  }
  func.func @embedding(%dy: tensor<?x128x8xf32>, %ids: tensor<?x128xi32>, %acc: tensor<16x8xf32> {nn.gradient}) -> tensor<16x8xf32> attributes {nn.unit} {
    %0 = nn.embedding_grad %dy, %ids into %acc {nn.offsets = array<i64: -1>} : (tensor<?x128x8xf32>, tensor<?x128xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
    return %0 : tensor<16x8xf32>
  }
}

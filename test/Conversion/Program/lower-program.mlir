// RUN: poplar-opt %s --lower-program --split-input-file | FileCheck %s

// A unit becomes a function of context, scratch, batch and its buffers. A
// buffer is an address: the start of its region and its offset, times the batch
// where the region is of the batch. A product is a call with a descriptor (m n
// k, batched and trans_a, ...); equal products share one. Missing operands are
// null. A kernel is dispatched with its buffers in an array and as many parts
// as it has for each sample, times the batch.

// CHECK-DAG: llvm.func @poplar_rt_gemm(
// CHECK-DAG: llvm.func @poplar_rt_dispatch(
// CHECK-DAG: llvm.mlir.global internal constant @[[$GEMM:gemm[_0-9]*]](dense<[4, 8, 8, 1, 1, 0, 0, 0, 0, 0, 0]> : tensor<11xi64>)
// CHECK-NOT: global internal constant
// CHECK-LABEL: func private @block.call(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[SCRATCH:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64, %[[X:[^:]+]]: !llvm.ptr, %[[W:[^:]+]]: !llvm.ptr, %[[Y:[^:]+]]: !llvm.ptr)
// CHECK: %[[C128:.+]] = arith.constant 128 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C128]]
// CHECK: %[[SECOND:.+]] = llvm.getelementptr %[[SCRATCH]][%[[OFFSET]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GEMM]]
// CHECK: %[[NULL:.+]] = llvm.mlir.zero
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %[[DESC]], %[[X]], %[[W]], %[[NULL]], %{{[^,]+}}, %[[SCRATCH]], %[[B]])
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GEMM]]
// CHECK: llvm.call @poplar_rt_gemm(%[[CTX]], %[[DESC]], %[[SCRATCH]], %[[W]], %{{.+}}, %{{.+}}, %[[SECOND]], %[[B]])
// CHECK: %[[F:.+]] = constant @sum.body
// CHECK: %[[KERNEL:.+]] = builtin.unrealized_conversion_cast %[[F]]
// CHECK-DAG: llvm.store %[[SCRATCH]], %{{.+}}
// CHECK-DAG: llvm.store %[[SECOND]], %{{.+}}
// CHECK-DAG: llvm.store %[[Y]], %{{.+}}
// CHECK: %[[C4:.+]] = arith.constant 4 : i64
// CHECK: %[[EXTENT:.+]] = arith.muli %[[B]], %[[C4]]
// CHECK: %[[GRAIN:.+]] = arith.constant 1 : i64
// CHECK: llvm.call @poplar_rt_dispatch(%[[CTX]], %[[KERNEL]], %{{.+}}, %[[B]], %[[EXTENT]], %[[GRAIN]])
// CHECK: return

// A step is given the arena; the batch region begins behind the fixed one.
// CHECK-LABEL: func @infer.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK: %[[C1024:.+]] = arith.constant 1024 : i64
// CHECK: %[[BATCH:.+]] = llvm.getelementptr %[[ARENA]][%[[C1024]]]
// CHECK: %[[C64:.+]] = arith.constant 64 : i64
// CHECK: %[[OFFSET:.+]] = arith.muli %[[B]], %[[C64]]
// CHECK: %[[X:.+]] = llvm.getelementptr %[[BATCH]][%[[OFFSET]]]
// CHECK: %[[C256:.+]] = arith.constant 256 : i64
// CHECK: %[[W:.+]] = llvm.getelementptr %[[ARENA]][%[[C256]]]
// CHECK: call @block.call(%[[CTX]], %[[S:.+]], %[[B]], %[[X]], %[[W]], %[[Y:.+]])
// CHECK-NOT: poplar_rt_poison
// CHECK: return

// The runtime finds all products in one list.
// CHECK: llvm.mlir.global internal constant @poplar_products() {{.*}} : !llvm.array<1 x ptr> {
// CHECK: llvm.mlir.addressof @[[$GEMM]]
// CHECK-NOT: exec.
module {
  exec.arena fixed 1024 per_sample 1024 live 1024 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.kernel @sum(%a: tensor<?x4x8xf32>, %b: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample {
    exec.yield %a : tensor<?x4x8xf32>
  }
  func.func private @sum.body(%args: !llvm.ptr, %batch: i64, %begin: i64, %end: i64) {
    return
  }
  exec.function unit @block(%x: memref<?x4x8xf32>, %w: memref<8x8xf32>, %y: memref<?x4x8xf32>) scratch 256 {
    %0 = exec.buffer scratch at 0 : memref<?x4x8xf32>
    %1 = exec.buffer scratch at 128 : memref<?x4x8xf32>
    exec.product %x, %w into %0 trans_b : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
    exec.product %0, %w into %1 trans_b : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
    exec.dispatch @sum(%0, %1, %y) : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
    exec.return
  }
  exec.function step @infer() inputs <ids = 64> result 512 : memref<?x4x8xf32> {
    %x = exec.buffer batch at 64 : memref<?x4x8xf32>
    %w = exec.buffer fixed at 256 : memref<8x8xf32>
    %y = exec.buffer batch at 512 : memref<?x4x8xf32>
    %s = exec.buffer batch at 192 : memref<?x256xi8>
    exec.call @block(%x, %w, %y) scratch %s : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>, memref<?x256xi8>)
    exec.end %s : memref<?x256xi8>
    exec.return
  }
}

// -----

// The gradient of a weight adds up the rows of both operands; that of a bias is
// a by-product, of the first operand's rows or of the second's columns.

// CHECK-DAG: llvm.mlir.global internal constant @[[$PLAIN:gemm[_0-9]*]](dense<[8, 8, 4, 4294967298, 4294967296, 0, 0, 0, 0, 0, 0]>
// CHECK-DAG: llvm.mlir.global internal constant @[[$ROWS:gemm[_0-9]*]](dense<[16, 8, 4, 4294967298, 4294967296, 0, 0, 4, 0, 0, 0]>
// CHECK-DAG: llvm.mlir.global internal constant @[[$COLUMNS:gemm[_0-9]*]](dense<[8, 16, 4, 4294967298, 4294967296, 0, 0, 5, 0, 0, 0]>
// CHECK-LABEL: func private @gradients.call(
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$ROWS]]
// CHECK: llvm.call @poplar_rt_gemm(%{{[^,]+}}, %[[DESC]], %[[DY:[^,]+]], %[[X:[^,]+]], %{{[^,]+}}, %[[DB:[^,]+]], %{{[^,]+}}, %{{[^,]+}})
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$COLUMNS]]
// CHECK: llvm.call @poplar_rt_gemm(%{{[^,]+}}, %[[DESC]], %[[X]], %[[DY]], %{{[^,]+}}, %[[DB]], %{{[^,]+}}, %{{[^,]+}})
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$PLAIN]]
// CHECK: llvm.call @poplar_rt_gemm(%{{[^,]+}}, %[[DESC]], %[[X]], %[[X]],
module {
  exec.arena fixed 4096 per_sample 128 live 128 transient 4096 bytes 0 live 0 scratch 4096 bytes 0
  exec.function unit @gradients(%dy: memref<?x4x16xf32>, %x: memref<?x4x8xf32>, %dw: memref<16x8xf32>, %dv: memref<8x16xf32>, %db: memref<16xf32>, %du: memref<8x8xf32>) scratch 0 {
    exec.product %dy, %x aux %db into %dw epilogue bias_grad_a : (memref<?x4x16xf32>, memref<?x4x8xf32>, memref<16xf32>, memref<16x8xf32>)
    exec.product %x, %dy aux %db into %dv epilogue bias_grad_b : (memref<?x4x8xf32>, memref<?x4x16xf32>, memref<16xf32>, memref<8x16xf32>)
    exec.product %x, %x into %du : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<8x8xf32>)
    exec.return
  }
}

// -----

// Where GELU is fused, what it was given goes to `aux`; with TF32, the
// descriptor says so (its eighth word is 2^32 and the epilogue).

// CHECK-DAG: llvm.mlir.global internal constant @{{gemm[_0-9]*}}(dense<[4, 16, 8, 1, 1, 1, 0, 2, 0, 0, 0]>
// CHECK-DAG: llvm.mlir.global internal constant @{{gemm[_0-9]*}}(dense<[4, 16, 8, 1, 0, 0, 0, 4294967296, 0, 0, 0]>
// CHECK-LABEL: func private @gelu.call(
// CHECK: llvm.call @poplar_rt_gemm(
module {
  exec.arena fixed 4096 per_sample 128 live 128 transient 4096 bytes 0 live 0 scratch 4096 bytes 0
  exec.function unit @gelu(%x: memref<?x4x8xf32>, %w: memref<16x8xf32>, %v: memref<8x16xf32>, %b: memref<16xf32>, %pre: memref<?x4x16xf32>, %y: memref<?x4x16xf32>) scratch 0 {
    exec.product %x, %w bias %b aux %pre into %y trans_b epilogue gelu_aux : (memref<?x4x8xf32>, memref<16x8xf32>, memref<16xf32>, memref<?x4x16xf32>, memref<?x4x16xf32>)
    exec.product %x, %v into %y tf32 : (memref<?x4x8xf32>, memref<8x16xf32>, memref<?x4x16xf32>)
    exec.return
  }
}

// -----

// Attention and gradients of embeddings are kernels of the library, which are
// dispatched with a constant descriptor by a wrapper.

// CHECK-DAG: llvm.mlir.global internal constant @attention(dense<[128, 2, 1, 4, 8, 4, 4, 8, 0, 0, 0, 0, 0, 0, 4602678819172646912, 0, 0, 1, 0]>
// CHECK-DAG: llvm.mlir.global internal constant @embedding_grad(dense<[128, 8, -4294967296, 0, 0]>
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
module {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.function unit @attend(%q: memref<?x128x8xf32>, %k: memref<?x128x4xf32>, %y: memref<?x128x8xf32>, %lse: memref<?x2x128xf32>) scratch 0 {
    exec.attention %q, %k, %k into %y, %lse causal heads 2 kv_heads 1 scale 0.5 : (memref<?x128x8xf32>, memref<?x128x4xf32>, memref<?x128x4xf32>, memref<?x128x8xf32>, memref<?x2x128xf32>)
    exec.return
  }
  exec.function unit @embedding(%dy: memref<?x128x8xf32>, %ids: memref<?x128xi32>, %acc: memref<16x8xf32>) scratch 0 {
    exec.embedding_grad %dy, %ids into %acc : (memref<?x128x8xf32>, memref<?x128xi32>, memref<16x8xf32>)
    exec.return
  }
}

// -----

// The gradient of attention whose queries, keys and values are packed: one
// buffer stands for all three, the same with the gradients.

// CHECK-LABEL: func private @backward.call(
// CHECK-SAME: i64, %[[DY:[^:]+]]: !llvm.ptr, %[[Y:[^:]+]]: !llvm.ptr, %[[LSE:[^:]+]]: !llvm.ptr, %[[QKV:[^:]+]]: !llvm.ptr, %[[D:[^:]+]]: !llvm.ptr)
// CHECK: llvm.mlir.zero
// CHECK-COUNT-3: llvm.store %[[QKV]],
// CHECK-COUNT-3: llvm.store %[[D]],
// CHECK: llvm.call @poplar_rt_dispatch(
module {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.function unit @backward(%dy: memref<?x16x8xf32>, %y: memref<?x16x8xf32>, %lse: memref<?x2x16xf32>, %qkv: memref<?x16x24xf32>, %d: memref<?x16x24xf32>) scratch 0 {
    exec.attention_grad %dy, %y, %lse, %qkv into %d heads 2 kv_heads 2 scale 0.5 : (memref<?x16x8xf32>, memref<?x16x8xf32>, memref<?x2x16xf32>, memref<?x16x24xf32>, memref<?x16x24xf32>)
    exec.return
  }
}

// -----

// A turn is given the memory of its micro-batch in an array: its slot, then its
// messages.

// CHECK-LABEL: func @forward.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[PORTS:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK: %[[PLACE:.+]] = llvm.getelementptr %[[PORTS]][0]
// CHECK: %[[SLOT:.+]] = llvm.load %[[PLACE]]
// CHECK: %[[X:.+]] = llvm.getelementptr %[[SLOT]]
// CHECK: %[[PLACE:.+]] = llvm.getelementptr %[[PORTS]][2]
// CHECK: %[[Y:.+]] = llvm.load %[[PLACE]]
// CHECK: llvm.store %[[X]], %
// CHECK: llvm.store %[[Y]], %
// CHECK: %[[ACTIVATION:.+]] = arith.constant 0 : i64
// CHECK: llvm.call @poplar_rt_send(%[[CTX]], %[[ACTIVATION]])
// CHECK: %[[GRADIENT:.+]] = arith.constant 1 : i64
// CHECK: llvm.call @poplar_rt_receive(%[[CTX]], %[[GRADIENT]])
module {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.kernel @copy(%a: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample {
    exec.yield %a : tensor<?x4x8xf32>
  }
  func.func private @copy.body(%args: !llvm.ptr, %batch: i64, %begin: i64, %end: i64) {
    return
  }
  exec.function turn @forward() inputs <ids = 64> {
    %x = exec.buffer slot at 64 : memref<?x4x8xf32>
    %y = exec.port activation_out : memref<?x4x8xf32>
    exec.dispatch @copy(%x, %y) : (memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
    exec.send activation
    exec.receive gradient
    exec.return
  }
}

// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --lower-program --split-input-file | FileCheck %s

// Collectives and updates become calls of the runtime. Every collective has a
// descriptor of its own, three words of 64 bits: its number in the order of the
// program; its kind (0 all-gather, 1 reduce-scatter, 2 all-reduce) and, times
// 2^32, the bucket's index; the type on the wire (0 f32, 1 bf16, 2 f16) and,
// times 2^32, whether the buffer is transient.

// Stage 3: @a and @b are gathered into transient buffers and wait at once; the
// gradients of @a take the place of @b, are zeroed, added to in place, and
// reduced. @w is the second parameter of @a, 128 bytes behind the first.

// CHECK-DAG: llvm.mlir.global internal constant @[[$GATHER_A:.+]](dense<[0, 0, 4294967296]> : tensor<3xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @[[$GATHER_B:.+]](dense<[1, 4294967296, 4294967296]> : tensor<3xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @[[$SCATTER_A:.+]](dense<[2, 1, 4294967296]> : tensor<3xi64>)
// CHECK-DAG: llvm.func @poplar_rt_start(!llvm.ptr, !llvm.ptr, !llvm.ptr)
// CHECK-DAG: llvm.func @poplar_rt_wait(!llvm.ptr, !llvm.ptr)
// CHECK-DAG: llvm.func @poplar_rt_zero(!llvm.ptr, !llvm.ptr, i64)

// CHECK-LABEL: func @train.step(
// CHECK-SAME: %[[CONTEXT:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64)
// CHECK: %[[DESC:.+]] = llvm.mlir.addressof @[[$GATHER_A]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[ARENA]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK-NEXT: %[[OFFSET:.+]] = arith.constant 128
// CHECK-NEXT: %[[W:.+]] = llvm.getelementptr %[[ARENA]][%[[OFFSET]]]
// CHECK-NEXT: %[[OFFSET:.+]] = arith.constant 384
// CHECK-NEXT: %[[V:.+]] = llvm.getelementptr %[[ARENA]][%[[OFFSET]]]
// CHECK-NEXT: %[[DESC:.+]] = llvm.mlir.addressof @[[$GATHER_B]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[V]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK: llvm.call @poplar_rt_gemm({{.*}}, %[[V]], %{{.*}}, %[[BATCH]])
// CHECK: %[[G:.+]] = llvm.getelementptr %[[ARENA]]
// CHECK-NEXT: %[[BYTES:.+]] = arith.constant 384
// CHECK-NEXT: llvm.call @poplar_rt_zero(%[[CONTEXT]], %[[G]], %[[BYTES]])
// CHECK-NEXT: %[[OFFSET:.+]] = arith.constant 128
// CHECK-NEXT: %[[DW:.+]] = llvm.getelementptr %[[G]][%[[OFFSET]]]
// CHECK: llvm.call @poplar_rt_gemm({{.*}}, %[[W]], %{{.*}}, %[[BATCH]])
// CHECK: llvm.call @poplar_rt_gemm({{.*}}, %[[DW]], %[[BATCH]])
// CHECK-NEXT: %[[DESC:.+]] = llvm.mlir.addressof @[[$SCATTER_A]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[G]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK-NEXT: return
// CHECK-NOT: zero.bucket
// CHECK-NOT: nn.parameter
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
nn.parameter @n : tensor<8xf32> ones
nn.parameter @w : tensor<8x8xf32> ones
nn.parameter @v : tensor<8x8xf32> ones
zero.bucket @a [@n, @w] bounds [0, 48, 96]
zero.bucket @b [@v] bounds [0, 32, 64]
func.func @train(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %a:2 = zero.all_gather @a wire f32 : tensor<8xf32>, tensor<8x8xf32>
  %v = zero.all_gather @b wire f32 : tensor<8x8xf32>
  %0 = nn.linear %x, %v : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %g:2 = zero.gradients @a : tensor<8xf32>, tensor<8x8xf32>
  %1 = nn.linear %0, %a#1 : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.linear_grad_weight %1, %x into %g#1 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  zero.reduce_scatter @a wire f32 (%g#0, %2 : tensor<8xf32>, tensor<8x8xf32>)
  return %1 : tensor<?x4x8xf32>
}
}

// -----

// Starts and waits apart, gathered as bf16. Gradients of f16 and bf16 programs
// may carry a loss scale, which is taken out before the start.

// CHECK-DAG: llvm.mlir.global internal constant @[[$GATHER:.+]](dense<[0, 0, 4294967297]> : tensor<3xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @[[$SCATTER:.+]](dense<[1, 1, 4294967296]> : tensor<3xi64>)
// CHECK-LABEL: func @train.step(
// CHECK-SAME: %[[CONTEXT:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64)
// CHECK: llvm.call @poplar_rt_zero(%[[CONTEXT]], %[[G:[^,]+]],
// CHECK: %[[GATHERED:.+]] = llvm.mlir.addressof @[[$GATHER]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[GATHERED]], %[[W:[^)]+]])
// CHECK-NOT: poplar_rt_wait
// CHECK: llvm.call @poplar_rt_gemm({{.*}}, %[[G]], %[[BATCH]])
// CHECK-NEXT: %[[BUCKET:.+]] = arith.constant 0
// CHECK-NEXT: llvm.call @poplar_rt_unscale(%[[CONTEXT]], %[[BUCKET]], %[[G]])
// CHECK-NEXT: %[[SCATTERED:.+]] = llvm.mlir.addressof @[[$SCATTER]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[SCATTERED]], %[[G]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[GATHERED]])
// CHECK: llvm.call @poplar_rt_gemm({{.*}}, %[[W]], %{{.*}}, %[[BATCH]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[SCATTERED]])
// CHECK-NEXT: return
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
func.func @train(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %g = zero.gradients @a : tensor<8x8xf32>
  %t0 = zero.start all_gather @a wire bf16 transient
  %0 = nn.linear_grad_weight %x, %x into %g : (tensor<?x4x8xbf16>, tensor<?x4x8xbf16>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %t1 = zero.start reduce_scatter @a wire f32 unscale (%0 : tensor<8x8xf32>)
  %w = zero.wait %t0 : tensor<8x8xbf16>
  %1 = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  zero.wait %t1
  return %1 : tensor<?x4x8xbf16>
}
}

// -----

// Stages 0 and 1: collectives work on the bucket's running gradients, 256 bytes
// behind its copy, and on the copy. Only the second bucket, at 512, is unscaled.
// The update is of shards, by the bucket's index; the norm says whether it has
// to unscale.

// CHECK-DAG: llvm.mlir.global internal constant @[[$REDUCE:.+]](dense<[0, 2, 0]> : tensor<3xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @[[$SCATTER:.+]](dense<[1, 4294967297, 0]> : tensor<3xi64>)
// CHECK-DAG: llvm.mlir.global internal constant @[[$GATHER:.+]](dense<[2, 4294967296, 1]> : tensor<3xi64>)

// CHECK-LABEL: func @train_last.step(
// CHECK-SAME: %[[CONTEXT:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr,
// CHECK: %[[OFFSET:.+]] = arith.constant 256
// CHECK-NEXT: %[[A:.+]] = llvm.getelementptr %[[ARENA]][%[[OFFSET]]]
// CHECK-NEXT: %[[DESC:.+]] = llvm.mlir.addressof @[[$REDUCE]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[A]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK-NEXT: %[[OFFSET:.+]] = arith.constant 768
// CHECK-NEXT: %[[B:.+]] = llvm.getelementptr %[[ARENA]][%[[OFFSET]]]
// CHECK-NEXT: %[[BUCKET:.+]] = arith.constant 1
// CHECK-NEXT: llvm.call @poplar_rt_unscale(%[[CONTEXT]], %[[BUCKET]], %[[B]])
// CHECK-NEXT: %[[DESC:.+]] = llvm.mlir.addressof @[[$SCATTER]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[B]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK-NEXT: return

// CHECK-LABEL: func @update.step(
// CHECK-SAME: %[[CONTEXT:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr,
// CHECK: %[[NO:.+]] = arith.constant 0
// CHECK-NEXT: llvm.call @poplar_rt_norm(%[[CONTEXT]], %[[NO]])
// CHECK-NEXT: %[[BUCKET:.+]] = arith.constant 1
// CHECK-NEXT: llvm.call @poplar_rt_adamw(%[[CONTEXT]], %[[BUCKET]])
// CHECK-NEXT: %[[OFFSET:.+]] = arith.constant 512
// CHECK-NEXT: %[[COPY:.+]] = llvm.getelementptr %[[ARENA]][%[[OFFSET]]]
// CHECK-NEXT: %[[DESC:.+]] = llvm.mlir.addressof @[[$GATHER]]
// CHECK-NEXT: llvm.call @poplar_rt_start(%[[CONTEXT]], %[[DESC]], %[[COPY]])
// CHECK-NEXT: llvm.call @poplar_rt_wait(%[[CONTEXT]], %[[DESC]])
// CHECK-NEXT: %[[YES:.+]] = arith.constant 1
// CHECK-NEXT: llvm.call @poplar_rt_norm(%[[CONTEXT]], %[[YES]])
// CHECK-NEXT: return
module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
nn.parameter @w : tensor<8x8xf32> ones
nn.parameter @v : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
zero.bucket @b [@v] bounds [0, 32, 64]
func.func @train_last() {
  zero.all_reduce @a wire f32
  zero.reduce_scatter @b wire f32 unscale
  return
}
func.func @update() {
  zero.norm
  zero.adamw @b
  zero.all_gather @b wire bf16
  zero.norm unscale
  return
}
}

// RUN: poplar-opt %s --expand-gpu-ops | FileCheck %s

// Sums are exchanges within subgroups. The first lane of each stores its sum to
// a word of its own, and every thread adds these up in order, also where the
// number of subgroups is no power of two. The size of a block is a constant;
// roots are intrinsics.

// CHECK-LABEL: gpu.func @sum
// CHECK-SAME: workgroup(%[[SUMS:.+]] : memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
// CHECK-NOT: gpu.block_dim
// CHECK: %{{.+}} = llvm.call_intrinsic "llvm.sqrt"(%{{.+}}) : (f32) -> f32
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: %[[PART:.+]] = arith.addf
// CHECK: %[[LANE:.+]] = arith.remui %{{.+}}, %c32
// CHECK: %[[FIRST:.+]] = arith.cmpi eq, %[[LANE]], %c0
// CHECK: scf.if %[[FIRST]]
// CHECK: %[[NUMBER:.+]] = arith.divui %{{.+}}, %c32
// CHECK: memref.store %[[PART]], %[[SUMS]][%[[NUMBER]]]
// CHECK: gpu.barrier
// CHECK: %[[A:.+]] = memref.load %[[SUMS]][%c0]
// CHECK: %[[B:.+]] = memref.load %[[SUMS]][%c1]
// CHECK: %[[AB:.+]] = arith.addf %[[A]], %[[B]]
// CHECK: %[[C:.+]] = memref.load %[[SUMS]][%c2]
// CHECK: %[[ABC:.+]] = arith.addf %[[AB]], %[[C]]
// CHECK: gpu.barrier
// CHECK-NOT: memref.store
// CHECK: llvm.store %[[ABC]]
gpu.module @kernels {
  gpu.func @sum(%p: !llvm.ptr) kernel attributes {known_block_size = array<i32: 96, 1, 1>} {
    %x = llvm.load %p : !llvm.ptr -> f32
    %r = math.sqrt %x : f32
    %s = gpu.all_reduce add %r uniform {} : (f32) -> (f32)
    llvm.store %s, %p : f32, !llvm.ptr
    gpu.return
  }
}

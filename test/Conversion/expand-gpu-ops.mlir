// RUN: poplar-opt %s --expand-gpu-ops | FileCheck %s

// Sums are exchanges within subgroups, then among their first threads through
// shared memory; the size of a block is a constant; roots are intrinsics.

// CHECK-LABEL: gpu.func @sum
// CHECK-SAME: workgroup(%{{.+}} : memref<32xf32, #gpu.address_space<workgroup>>)
// CHECK-NOT: gpu.block_dim
// CHECK: %{{.+}} = llvm.call_intrinsic "llvm.sqrt"(%{{.+}}) : (f32) -> f32
// CHECK: gpu.shuffle xor
// CHECK: gpu.barrier
// CHECK-NOT: gpu.all_reduce
gpu.module @kernels {
  gpu.func @sum(%p: !llvm.ptr) kernel attributes {known_block_size = array<i32: 128, 1, 1>} {
    %x = llvm.load %p : !llvm.ptr -> f32
    %r = math.sqrt %x : f32
    %s = gpu.all_reduce add %r uniform {} : (f32) -> (f32)
    llvm.store %s, %p : f32, !llvm.ptr
    gpu.return
  }
}

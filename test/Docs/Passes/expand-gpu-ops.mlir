// RUN: poplar-opt %s --expand-gpu-ops | FileCheck %s

// The sum of a subgroup becomes five exchanges of registers.
gpu.module @kernels {
  gpu.func @sum(%p: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %x = llvm.load %p : !llvm.ptr -> f32
    %s = gpu.subgroup_reduce add %x uniform : (f32) -> f32
    llvm.store %s, %p : f32, !llvm.ptr
    gpu.return
  }
}

// The result:
//
// CHECK:     gpu.func @sum(%arg0: !llvm.ptr) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
// CHECK:       %shuffleResult, %valid = gpu.shuffle  xor %0, %c1_i32, %c32_i32 : f32
// CHECK:       %shuffleResult_0, %valid_1 = gpu.shuffle  xor %1, %c2_i32, %c32_i32 : f32
// CHECK:       %shuffleResult_2, %valid_3 = gpu.shuffle  xor %2, %c4_i32, %c32_i32 : f32
// CHECK:       %shuffleResult_4, %valid_5 = gpu.shuffle  xor %3, %c8_i32, %c32_i32 : f32
// CHECK:       %shuffleResult_6, %valid_7 = gpu.shuffle  xor %4, %c16_i32, %c32_i32 : f32
// CHECK:       llvm.store %5, %arg0 : f32, !llvm.ptr

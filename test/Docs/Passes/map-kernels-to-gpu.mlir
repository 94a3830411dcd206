// RUN: poplar-opt %s --map-kernels-to-gpu | FileCheck %s

// A row of 8 elements is one subgroup, so a block has several rows.
#rows = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
exec.kernel @negate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %y = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  } -> tensor<?x4x8xf32>
  exec.yield %y : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   exec.gpu_kernel "negate" block [32, 8, 1] pointers 2 parts_per_block 8 bytes 0 per_sample 256 flops_per_sample 0
// CHECK:     gpu.func @negate(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: i64) kernel attributes {known_block_size = array<i32: 32, 8, 1>} {
// CHECK:       %block_id_x = gpu.block_id  x
// CHECK:       %thread_id_x = gpu.thread_id  x
// CHECK:           %18 = llvm.load %17 {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>

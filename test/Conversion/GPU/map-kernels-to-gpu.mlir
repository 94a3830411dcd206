// RUN: poplar-opt %s --map-kernels-to-gpu --split-input-file | FileCheck %s

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// A row of 512 elements is a block of 128 threads, each of which has 4 of them,
// 16 bytes, and reads them once: the second op finds them in registers. The sum
// is that of the block, combined with the initial value. `x` and `y` are moved for
// each sample, `g` once.

// CHECK: exec.gpu_kernel "norm" block [128, 1, 1] pointers 3 parts_per_block 1 bytes 2048 per_sample 16384 flops_per_sample 0
// CHECK-LABEL: gpu.func @norm
// CHECK-SAME: (%[[X:.+]]: !llvm.ptr, %[[G:.+]]: !llvm.ptr, %[[Y:.+]]: !llvm.ptr, %[[BATCH:.+]]: i64) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
// CHECK: %[[ZERO:.+]] = arith.constant 0.0
// CHECK: gpu.block_id x
// CHECK: gpu.thread_id x
// CHECK: %[[V:.+]] = llvm.load {{.+}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: %[[A:.+]] = vector.extract %[[V]][0]
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK: arith.addf
// CHECK: %[[PART:.+]] = arith.addf
// CHECK: %[[TOTAL:.+]] = gpu.all_reduce add %[[PART]] uniform
// CHECK: %[[SUM:.+]] = arith.addf %[[ZERO]], %[[TOTAL]]
// CHECK-NOT: gpu.all_reduce
// CHECK: llvm.load {{.+}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: arith.mulf %{{.+}}, %[[SUM]]
// CHECK: %[[R:.+]] = vector.from_elements
// CHECK: llvm.store %[[R]], {{.+}} {alignment = 16 : i64} : vector<4xf32>
// CHECK: gpu.return
exec.kernel @norm(%x: tensor<?x4x512xf32>, %g: tensor<512xf32>) -> tensor<?x4x512xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x512xf32>
  %e2 = tensor.empty(%b) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %sum = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x512xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %e3 = tensor.empty(%b) : tensor<?x4x512xf32>
  %y = linalg.generic {indexing_maps = [#btd, #bt, #d, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %sum, %g : tensor<?x4x512xf32>, tensor<?x4xf32>, tensor<512xf32>) outs(%e3 : tensor<?x4x512xf32>) {
  ^bb0(%a: f32, %m: f32, %w: f32, %o: f32):
    %n = arith.mulf %a, %m : f32
    %r = arith.mulf %n, %w : f32
    linalg.yield %r : f32
  } -> tensor<?x4x512xf32>
  exec.yield %y : tensor<?x4x512xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>

// A short row is one subgroup, of which a block has eight; the largest element
// is found by exchange within it. The last of the 72 elements are two threads'.

// CHECK: exec.gpu_kernel "largest" block [32, 8, 1] pointers {{[0-9]+}} parts_per_block 8 bytes {{[0-9]+}} per_sample {{[0-9]+}}
// CHECK-LABEL: gpu.func @largest
// CHECK-SAME: known_block_size = array<i32: 32, 8, 1>
// CHECK: scf.if
// CHECK: %[[PART:.+]] = scf.if
// CHECK: gpu.subgroup_reduce maximumf %[[PART]] uniform
// CHECK: scf.if
// CHECK: llvm.store
exec.kernel @largest(%x: tensor<?x4x72xf32>) -> tensor<?x4xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %low = arith.constant 0xFF800000 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x72xf32>
  %e2 = tensor.empty(%b) : tensor<?x4xf32>
  %f = linalg.fill ins(%low : f32) outs(%e2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %most = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x72xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.maximumf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  exec.yield %most : tensor<?x4xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// A long row of 50257 elements that is padded begins aligned: threads take eight
// of its elements at a time, and the first one of them what is left.

// CHECK: exec.gpu_kernel "padded" block [1024, 1, 1]
// CHECK-LABEL: gpu.func @padded
// CHECK: %[[WHOLE:.+]] = arith.constant 50256 : i64
// CHECK: scf.for %{{.+}} = %{{.+}} to %[[WHOLE]]
// CHECK: %[[ROW:.+]] = arith.constant 50304 : i64
// CHECK: arith.muli %{{.+}}, %[[ROW]]
// CHECK: llvm.load {{.+}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xbf16>
// CHECK: llvm.store {{.+}} {alignment = 16 : i64} : vector<8xbf16>
// CHECK: scf.if
// CHECK: llvm.load {{.+}} : !llvm.ptr -> bf16
// CHECK: llvm.store {{.+}} : bf16
exec.kernel @padded(%x: tensor<?x4x50257xbf16, #exec.row<50304>>) -> tensor<?x4x50257xbf16, #exec.row<50304>>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x50257xbf16, #exec.row<50304>>
  %e = tensor.empty(%b) : tensor<?x4x50257xbf16, #exec.row<50304>>
  %y = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x50257xbf16, #exec.row<50304>>) outs(%e : tensor<?x4x50257xbf16, #exec.row<50304>>) {
  ^bb0(%a: bf16, %o: bf16):
    %n = arith.negf %a : bf16
    linalg.yield %n : bf16
  } -> tensor<?x4x50257xbf16, #exec.row<50304>>
  exec.yield %y : tensor<?x4x50257xbf16, #exec.row<50304>>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// Columns: 2 threads of 8 bf16 columns each, which is what memory gives at a time,
// so that there are 48 blocks of 256 groups of rows. A thread reads four rows at a
// time. The groups of a subgroup exchange their sums; those of the 16 subgroups are
// added in order by one thread.

// CHECK: exec.gpu_kernel "bias" block [2, 256, 1] pointers {{[0-9]+}} parts_per_block 16 bytes {{[0-9]+}} per_sample {{[0-9]+}}
// CHECK-LABEL: gpu.func @bias
// CHECK-SAME: workgroup(%[[SHARED:.+]] : memref<16x16xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
// CHECK-SAME: known_block_size = array<i32: 2, 256, 1>
// CHECK: scf.for {{.+}} step %c1024_i64
// CHECK-COUNT-4: llvm.load {{.+}} {alignment = 16 : i64} : !llvm.ptr -> vector<8xbf16>
// CHECK: scf.for {{.+}} step %c256_i64
// CHECK: gpu.subgroup_reduce add %{{.+}} cluster(size = 16, stride = 2) : (f32) -> f32
// CHECK: scf.if
// CHECK: memref.store %{{.+}}, %[[SHARED]]
// CHECK: gpu.barrier
// CHECK: scf.if
// CHECK: scf.for
// CHECK: memref.load %[[SHARED]]
// CHECK: llvm.store %{{.+}} {alignment = 32 : i64} : vector<8xf32>
exec.kernel @bias(%x: tensor<?x4x768xbf16>, %acc: tensor<768xf32>) -> tensor<768xf32>
    columns 768 in_place [1] {
  %y = linalg.generic {indexing_maps = [#btd, #d], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<?x4x768xbf16>) outs(%acc : tensor<768xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %e = arith.extf %a : bf16 to f32
    %s = arith.addf %o, %e : f32
    linalg.yield %s : f32
  } -> tensor<768xf32>
  exec.yield %y : tensor<768xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#head = affine_map<(d0, d1, d2) -> (d0, d2 floordiv 32, d2 mod 32)>

// Columns of each sample: blocks for each, which have none of the next.

// CHECK: exec.gpu_kernel "heads" block [2, 256, 1] pointers 2 parts_per_block 16 bytes 0 per_sample {{[0-9]+}}
// CHECK-LABEL: gpu.func @heads
// CHECK: %[[BLOCKS:.+]] = arith.constant 6 : i64
// CHECK: arith.divui %{{.+}}, %[[BLOCKS]] : i64
// CHECK: arith.remui %{{.+}}, %[[BLOCKS]] : i64
// CHECK: llvm.store %{{.+}} {alignment = 32 : i64} : vector<8xf32>
exec.kernel @heads(%x: tensor<?x4x96xbf16>) -> tensor<?x3x32xf32> columns 96 per_sample {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x96xbf16>
  %e = tensor.empty(%b) : tensor<?x3x32xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?x3x32xf32>) -> tensor<?x3x32xf32>
  %y = linalg.generic {indexing_maps = [#btd, #head], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<?x4x96xbf16>) outs(%f : tensor<?x3x32xf32>) {
  ^bb0(%a: bf16, %o: f32):
    %w = arith.extf %a : bf16 to f32
    %s = arith.addf %o, %w : f32
    linalg.yield %s : f32
  } -> tensor<?x3x32xf32>
  exec.yield %y : tensor<?x3x32xf32>
}

// -----

#i = affine_map<(d0) -> (d0)>

// Flat: whole vectors, and what is left at the end one by one.

// CHECK: exec.gpu_kernel "scale" block [256, 1, 1] pointers {{[0-9]+}} parts_per_block 1024 bytes {{[0-9]+}} per_sample {{[0-9]+}}
// CHECK-LABEL: gpu.func @scale
// CHECK-SAME: known_block_size = array<i32: 256, 1, 1>
// CHECK: scf.if
// CHECK: llvm.load {{.+}} -> vector<4xf32>
// CHECK: llvm.store {{.+}} : vector<4xf32>
// CHECK: } else {
// CHECK: scf.for
// CHECK: llvm.load {{.+}} -> f32
// CHECK: llvm.store {{.+}} : f32
exec.kernel @scale(%x: tensor<?xf32>) -> tensor<?xf32>
    flat 1 per_sample in_place [0] {
  %y = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel"]}
      outs(%x : tensor<?xf32>) {
  ^bb0(%a: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  exec.yield %y : tensor<?xf32>
}

// -----

#i = affine_map<(d0) -> (d0)>

// Numbers that all elements share are counted if they are read, and
// once: 8 bytes for a launch, and 8 for an element.

// CHECK: exec.gpu_kernel "decay" block [256, 1, 1] pointers 2 parts_per_block 1024 bytes 8 per_sample 8
exec.kernel @decay(%x: tensor<?xf32>, %hyper: tensor<16xf32>) -> tensor<?xf32>
    flat 1 per_sample in_place [0] {
  %y = linalg.generic {indexing_maps = [#i], iterator_types = ["parallel"]}
      outs(%x : tensor<?xf32>) {
  ^bb0(%a: f32):
    %c0 = arith.constant 0 : index
    %c7 = arith.constant 7 : index
    %rate = tensor.extract %hyper[%c0] : tensor<16xf32>
    %decay = tensor.extract %hyper[%c7] : tensor<16xf32>
    %p = arith.mulf %a, %rate : f32
    %s = arith.addf %p, %decay : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  exec.yield %y : tensor<?xf32>
}

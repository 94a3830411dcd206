// RUN: poplar-opt %s --lower-kernels | FileCheck %s

// The body does the rows from %arg2 to %arg3.
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
// CHECK:   func.func @negate.body(%arg0: !llvm.ptr, %arg1: i64, %arg2: i64, %arg3: i64) {
// CHECK:     scf.for %arg4 = %arg2 to %arg3 step %c1_i64  : i64 {
// CHECK:       scf.for %arg5 = %c0_i64 to %c8_i64 step %c1_i64_0  : i64 {
// CHECK:         %11 = llvm.load %10 {access_groups = [#access_group]} : !llvm.ptr -> f32
// CHECK:         %12 = arith.negf %11 : f32
// CHECK:         llvm.store %12, %17 {access_groups = [#access_group]} : f32, !llvm.ptr

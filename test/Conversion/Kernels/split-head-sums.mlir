// RUN: poplar-opt %s --split-head-sums | FileCheck %s

#heads = affine_map<(b, t, d) -> (b, t floordiv 2, t mod 2 * 16 + d)>
#row = affine_map<(b, t, d) -> (b, t)>
#btd = affine_map<(b, t, d) -> (b, t, d)>
#column = affine_map<(b, t, d) -> (d)>

// The tokens of each sample first, in columns of both heads; then samples and
// heads.
// CHECK-DAG: #[[$ID:.*]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$ROW:.*]] = affine_map<(d0, d1, d2) -> (d0, d1 * 2 + d2 floordiv 16)>
// CHECK-DAG: #[[$HEAD:.*]] = affine_map<(d0, d1, d2) -> (d0, d2 floordiv 16, d2 mod 16)>
// CHECK-LABEL: func.func @grad(
// CHECK: %[[PARTIAL:.*]] = linalg.generic {indexing_maps = [#[[$ID]], #[[$ROW]], #[[$HEAD]]], iterator_types = ["parallel", "reduction", "parallel"]}
// CHECK: linalg.generic {indexing_maps = [#[[$ID]], {{.*}}], iterator_types = ["reduction", "reduction", "parallel"]} ins(%[[PARTIAL]] : tensor<?x2x16xf32>) outs(%arg2 : tensor<16xf32>)
func.func @grad(%dy: tensor<?x4x32xf32>, %rstd: tensor<?x8xf32>, %acc: tensor<16xf32>) -> tensor<16xf32> {
  %0 = linalg.generic {indexing_maps = [#heads, #row, #column], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy, %rstd : tensor<?x4x32xf32>, tensor<?x8xf32>) outs(%acc : tensor<16xf32>) {
  ^bb0(%g: f32, %r: f32, %sum: f32):
    %1 = arith.mulf %g, %r : f32
    %2 = arith.addf %sum, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// A sum over rows without heads stays as it is, as does one that is not alone
// added to.
// CHECK-LABEL: func.func @rows(
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @rows(%dy: tensor<?x4x16xf32>, %acc: tensor<16xf32>) -> tensor<16xf32> {
  %0 = linalg.generic {indexing_maps = [#btd, #column], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy : tensor<?x4x16xf32>) outs(%acc : tensor<16xf32>) {
  ^bb0(%g: f32, %sum: f32):
    %1 = arith.addf %sum, %g : f32
    linalg.yield %1 : f32
  } -> tensor<16xf32>
  return %0 : tensor<16xf32>
}
// CHECK-LABEL: func.func @scaled(
// CHECK-COUNT-1: linalg.generic
// CHECK-NOT: linalg.generic
func.func @scaled(%dy: tensor<?x4x32xf32>, %rstd: tensor<?x8xf32>, %acc: tensor<16xf32>) -> tensor<16xf32> {
  %0 = linalg.generic {indexing_maps = [#heads, #row, #column], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy, %rstd : tensor<?x4x32xf32>, tensor<?x8xf32>) outs(%acc : tensor<16xf32>) {
  ^bb0(%g: f32, %r: f32, %sum: f32):
    %1 = arith.mulf %sum, %r : f32
    %2 = arith.addf %1, %g : f32
    linalg.yield %2 : f32
  } -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

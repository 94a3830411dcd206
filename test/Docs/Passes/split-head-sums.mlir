// RUN: poplar-opt %s --split-head-sums | FileCheck %s

#heads = affine_map<(b, t, d) -> (b, t floordiv 2, t mod 2 * 128 + d)>
#row = affine_map<(b, t, d) -> (b, t)>
#column = affine_map<(b, t, d) -> (d)>

func.func @grad(%dy: tensor<?x4x256xf32>, %rstd: tensor<?x8xf32>, %acc: tensor<128xf32>) -> tensor<128xf32> {
  %0 = linalg.generic {indexing_maps = [#heads, #row, #column], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy, %rstd : tensor<?x4x256xf32>, tensor<?x8xf32>) outs(%acc : tensor<128xf32>) {
  ^bb0(%g: f32, %r: f32, %sum: f32):
    %1 = arith.mulf %g, %r : f32
    %2 = arith.addf %sum, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<128xf32>
  return %0 : tensor<128xf32>
}

// The result:
//
// CHECK: #map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-NEXT: #map1 = affine_map<(d0, d1, d2) -> (d0, d1 * 2 + d2 floordiv 128)>
// CHECK-NEXT: #map2 = affine_map<(d0, d1, d2) -> (d0, d2 floordiv 128, d2 mod 128)>
// CHECK-NEXT: #map3 = affine_map<(d0, d1, d2) -> (d2)>
// CHECK:   func.func @grad(%arg0: tensor<?x4x256xf32>, %arg1: tensor<?x8xf32>, %arg2: tensor<128xf32>) -> tensor<128xf32> {
// CHECK-NEXT:     %c0 = arith.constant 0 : index
// CHECK-NEXT:     %dim = tensor.dim %arg0, %c0 : tensor<?x4x256xf32>
// CHECK-NEXT:     %0 = tensor.empty(%dim) : tensor<?x2x128xf32>
// CHECK-NEXT:     %cst = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<?x2x128xf32>) -> tensor<?x2x128xf32>
// CHECK-NEXT:     %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "reduction", "parallel"]} ins(%arg0, %arg1 : tensor<?x4x256xf32>, tensor<?x8xf32>) outs(%1 : tensor<?x2x128xf32>) {
// CHECK-NEXT:     ^bb0(%in: f32, %in_0: f32, %out: f32):
// CHECK-NEXT:       %4 = arith.mulf %in, %in_0 : f32
// CHECK-NEXT:       %5 = arith.addf %out, %4 : f32
// CHECK-NEXT:       linalg.yield %5 : f32
// CHECK-NEXT:     } -> tensor<?x2x128xf32>
// CHECK-NEXT:     %3 = linalg.generic {indexing_maps = [#map, #map3], iterator_types = ["reduction", "reduction", "parallel"]} ins(%2 : tensor<?x2x128xf32>) outs(%arg2 : tensor<128xf32>) {
// CHECK-NEXT:     ^bb0(%in: f32, %out: f32):
// CHECK-NEXT:       %4 = arith.addf %out, %in fastmath<reassoc> : f32
// CHECK-NEXT:       linalg.yield %4 : f32
// CHECK-NEXT:     } -> tensor<128xf32>
// CHECK-NEXT:     return %3 : tensor<128xf32>
// CHECK-NEXT:   }

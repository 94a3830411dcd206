// RUN: poplar-opt %s --poplar-lower-gpu=chip=sm_90 --emit-gpu-assembly="chip=sm_90" -o /dev/null | FileCheck %s

#d = affine_map<(d0) -> (d0)>

// Tables that are equal are in an image once, in words.

// CHECK-NOT: .b8
// CHECK: .global .align 64 .b32 {{[a-z_$]+}}[8] = {1065353216,1073741824,3204448256,0,0,0,0,2143289344};
// CHECK-NOT: .global {{.*}}constant
// CHECK: .entry one(
// CHECK: .entry two(
exec.kernel @one(%x: tensor<8xf32>) -> tensor<8xf32> flat 8 {
  %t = arith.constant dense<[1.0, 2.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0x7FC00000]> : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %t[%i] : tensor<8xf32>
    %s = arith.mulf %a, %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  exec.yield %y : tensor<8xf32>
}
exec.kernel @two(%x: tensor<8xf32>) -> tensor<8xf32> flat 8 {
  %t = arith.constant dense<[1.0, 2.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0x7FC00000]> : tensor<8xf32>
  %e = tensor.empty() : tensor<8xf32>
  %y = linalg.generic {indexing_maps = [#d, #d], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %v = tensor.extract %t[%i] : tensor<8xf32>
    %s = arith.addf %a, %v : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  exec.yield %y : tensor<8xf32>
}

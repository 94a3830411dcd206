// RUN: poplar-opt %s --poplar-lower-gpu=chip=sm_80 --emit-gpu-assembly=chip=sm_80 -o /dev/null | FileCheck %s

// PTX of the kernel.
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
// CHECK: .target sm_80
// CHECK: .visible .entry negate(
// CHECK: .maxntid 32, 8, 1
// CHECK:  ld.global.v4.b32  {%r5, %r6, %r7, %r8}, [%rd13];
// CHECK:  neg.f32  %r9, %r5;
// CHECK:  st.global.v4.b32  [%rd14], {%r9, %r10, %r11, %r12};

// RUN: not poplar-opt %s --emit-gpu-assembly="chip=sm_12" 2>&1 | FileCheck %s --check-prefix=CHIP
// RUN: not poplar-opt %s --emit-gpu-assembly 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not poplar-opt %s --poplar-lower-gpu --emit-gpu-assembly="output=%t/no/file" 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not poplar-opt %s "--pass-pipeline=builtin.module(map-kernels-to-gpu,gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm,convert-vector-to-llvm,reconcile-unrealized-casts),emit-gpu-assembly)" 2>&1 | FileCheck %s --check-prefix=CALL

// CHIP: error: unknown chip 'sm_12'; there are sm_60, sm_70, {{.*}}gfx942
// NONE: error: has no kernels for a GPU: run --poplar-lower-gpu first
// FILE: error: cannot open output file '{{.*}}/no/file'
// What would have to be linked is missed here, not on the GPU.
// CALL: error: calls '__nv_sqrtf', which is in no library for sm_80

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
exec.kernel @root(%x: tensor<?x4x512xf32>) -> tensor<?x4x512xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x512xf32>
  %e = tensor.empty(%b) : tensor<?x4x512xf32>
  %y = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x512xf32>) outs(%e : tensor<?x4x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.sqrt %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x512xf32>
  exec.yield %y : tensor<?x4x512xf32>
}

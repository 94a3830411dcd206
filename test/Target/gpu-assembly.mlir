// RUN: poplar-opt %s --poplar-lower-gpu=chip=sm_70 --emit-gpu-assembly="chip=sm_70" -o /dev/null | FileCheck %s --check-prefixes=PTX,SM70
// RUN: poplar-opt %s --poplar-lower-gpu=chip=sm_100 --emit-gpu-assembly="chip=sm_100" -o /dev/null | FileCheck %s --check-prefixes=PTX,SM100
// RUN: poplar-opt %s --poplar-lower-gpu=chip=gfx90a --emit-gpu-assembly="chip=gfx90a" -o /dev/null | FileCheck %s --check-prefix=AMD

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Functions of `math` are computed, not called; memory is accessed 16 bytes at
// a time.

// SM70: .target sm_70
// SM100: .target sm_100
// PTX-NOT: .extern
// PTX: .visible .entry root(
// PTX: .maxntid 128, 1, 1
// PTX: ld.global.v4
// PTX: sqrt.rn.f32
// PTX: ex2.approx.f32
// PTX-NOT: call
// PTX: st.global.v4
// PTX-NOT: .extern

// AMD: .amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
// AMD: global_load_dwordx4
// AMD: v_sqrt_f32
// AMD: v_exp_f32
// AMD-NOT: s_swappc
// AMD: global_store_dwordx4
exec.kernel @root(%x: tensor<?x4x512xf32>) -> tensor<?x4x512xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x512xf32>
  %e = tensor.empty(%b) : tensor<?x4x512xf32>
  %y = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x512xf32>) outs(%e : tensor<?x4x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = math.sqrt %a : f32
    %t = math.exp %s : f32
    linalg.yield %t : f32
  } -> tensor<?x4x512xf32>
  exec.yield %y : tensor<?x4x512xf32>
}

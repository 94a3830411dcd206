// RUN: poplar-opt %s --map-kernels-to-gpu --split-input-file --verify-diagnostics

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>

exec.kernel @product(%x: tensor<?x4x64xf32>, %i: tensor<?x4xf32>) -> tensor<?x4xf32>
    rows 4 per_sample in_place [1] {
  // expected-error @below {{reduces by something other than a sum or a maximum}}
  %p = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x64xf32>) outs(%i : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.mulf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  exec.yield %p : tensor<?x4xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// What one op hands to the next has no place in memory, and the row is too long
// for the registers of a block.

exec.kernel @wide(%x: tensor<?x4x65536xf32>) -> tensor<?x4x65536xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x65536xf32>
  %e = tensor.empty(%b) : tensor<?x4x65536xf32>
  %y = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x65536xf32>) outs(%e : tensor<?x4x65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.addf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x65536xf32>
  // expected-error @below {{reads a row of more elements than registers hold}}
  %z = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y : tensor<?x4x65536xf32>) outs(%e : tensor<?x4x65536xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.mulf %a, %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x65536xf32>
  exec.yield %z : tensor<?x4x65536xf32>
}

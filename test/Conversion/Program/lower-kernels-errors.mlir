// RUN: poplar-opt %s --lower-kernels --split-input-file --verify-diagnostics

#bt = affine_map<(d0, d1) -> (d0, d1)>
#shift = affine_map<(d0, d1) -> (d0, d1 ceildiv 2)>
exec.kernel @map(%x: tensor<?x5xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    rows 4 per_sample {
  // expected-error @below {{indexing map affine_map<(d0, d1) -> (d0, d1 ceildiv 2)> is more than sums, products, quotients and remainders of dimensions and constants}}
  %0 = linalg.generic {indexing_maps = [#shift, #bt], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x5xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?x4xf32>
  exec.yield %0 : tensor<?x4xf32>
}

// -----

#bt = affine_map<(d0, d1) -> (d0, d1)>
exec.kernel @extract(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    rows 4 per_sample {
  %0 = linalg.generic {indexing_maps = [#bt, #bt], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x4xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %1 = linalg.generic {indexing_maps = [#bt, #bt], iterator_types = ["parallel", "parallel"]}
      ins(%0 : tensor<?x4xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = arith.constant 0 : index
    // expected-error @below {{reads a tensor that is not an argument of the kernel}}
    %s = tensor.extract %0[%i, %j] : tensor<?x4xf32>
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  exec.yield %1 : tensor<?x4xf32>
}

// -----

#bt = affine_map<(d0, d1) -> (d0, d1)>
exec.kernel @region(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    rows 4 per_sample {
  %0 = linalg.generic {indexing_maps = [#bt, #bt], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x4xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    %t = arith.constant true
    // expected-error @below {{is not supported in the body of a kernel}}
    %s = scf.if %t -> f32 {
      scf.yield %a : f32
    } else {
      scf.yield %o : f32
    }
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  exec.yield %0 : tensor<?x4xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
exec.kernel @accumulator(%x: tensor<?x4x8xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    rows 4 per_sample {
  // expected-error @below {{does not use its accumulator}}
  %0 = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x8xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  } -> tensor<?x4xf32>
  exec.yield %0 : tensor<?x4xf32>
}

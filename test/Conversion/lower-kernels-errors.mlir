// RUN: poplar-opt %s --lower-kernels --split-input-file --verify-diagnostics

// expected-error @below {{is of an unknown kind of kernel}}
func.func private @kind(%x: tensor<?x4xf32>) attributes {nn.kernel = "diagonals", nn.parts = 4 : i64} {
  return
}

// -----

// expected-error @below {{argument 0 is not a tensor}}
func.func private @scalar(%x: f32) attributes {nn.kernel = "rows", nn.parts = 4 : i64} {
  return
}

// -----

#bt = affine_map<(d0, d1) -> (d0, d1)>
#shift = affine_map<(d0, d1) -> (d0, d1 + 1)>
func.func private @map(%x: tensor<?x5xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64} {
  // expected-error @below {{indexing map affine_map<(d0, d1) -> (d0, d1 + 1)> is more than dimensions and constants}}
  %0 = linalg.generic {indexing_maps = [#shift, #bt], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<?x5xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

#bt = affine_map<(d0, d1) -> (d0, d1)>
func.func private @extract(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64} {
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
  return %1 : tensor<?x4xf32>
}

// -----

#bt = affine_map<(d0, d1) -> (d0, d1)>
func.func private @region(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64} {
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
  return %0 : tensor<?x4xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func private @accumulator(%x: tensor<?x4x8xf32>, %y: tensor<?x4xf32>) -> tensor<?x4xf32>
    attributes {nn.batched, nn.kernel = "rows", nn.parts = 4 : i64} {
  // expected-error @below {{does not use its accumulator}}
  %0 = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x8xf32>) outs(%y : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    linalg.yield %a : f32
  } -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

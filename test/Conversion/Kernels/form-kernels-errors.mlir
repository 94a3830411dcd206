// RUN: poplar-opt %s --form-kernels --split-input-file --verify-diagnostics

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @iteration_space(%x: tensor<?x4xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @below {{has an iteration space that fits no kernel kind: expected (b,t), (b,t,d) by rows, by columns or by positions, or one parallel dimension}}
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x4xf32>) outs(%y : tensor<?xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// Only the batch may be dynamic.
#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @dynamic(%x: tensor<?x4x?xf32>, %y: tensor<?x4x?xf32>) -> tensor<?x4x?xf32> {
  // expected-error @below {{has an iteration space that fits no kernel kind}}
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x?xf32>) outs(%y : tensor<?x4x?xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<?x4x?xf32>
  return %0 : tensor<?x4x?xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#b = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
func.func @sizes(%x: tensor<?x4x8xf32>, %n: index) -> tensor<?x4x8xf32> {
  // expected-error @below {{has a dynamic size besides the batch}}
  %e = tensor.empty(%n, %n) : tensor<?x4x?xf32>
  %c0 = arith.constant 0 : index
  %d = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %o = tensor.empty(%d) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #b, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %e : tensor<?x4x8xf32>, tensor<?x4x?xf32>) outs(%o : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %r: f32):
    %s = arith.addf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
func.func @empty(%x: tensor<0x4x8xf32>, %y: tensor<0x4x8xf32>) -> tensor<0x4x8xf32> {
  // expected-error @below {{has an empty iteration space}}
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<0x4x8xf32>) outs(%y : tensor<0x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<0x4x8xf32>
  return %0 : tensor<0x4x8xf32>
}

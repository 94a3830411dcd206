// RUN: poplar-opt %s --nn-add-decoding --split-input-file --verify-diagnostics
// RUN: not poplar-opt %s --nn-add-decoding="chunk=0" --split-input-file 2>&1 | FileCheck %s
// CHECK: option chunk must be at least 1

// expected-error @below {{has no function @infer of ids: run --nn-differentiate first}}
module {
}

// -----

func.func @infer(%ids: tensor<?x4xi32>) {
  return
}
// expected-error @below {{has the name @prefill of a function that this pass makes: rename it}}
func.func @prefill() {
  return
}

// -----

// Sampling such a model takes whole sequences.
func.func @infer(%ids: tensor<?x4xi32>) -> tensor<?x4x6xf32> {
  %e = nn.get_parameter @e : tensor<8x6xf32>
  %0 = nn.embedding %ids, %e : (tensor<?x4xi32>, tensor<8x6xf32>) -> tensor<?x4x6xf32>
  %w = nn.get_parameter @w : tensor<18x6xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x6xf32>, tensor<18x6xf32>) -> tensor<?x4x18xf32>
  // expected-remark @below {{needs whole sequences: sampling has no caches}}
  %2:2 = nn.attention %1 heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x18xf32>) -> (tensor<?x4x6xf32>, tensor<?x2x4xf32>)
  return %2#0 : tensor<?x4x6xf32>
}
nn.parameter @e : tensor<8x6xf32> zeros
nn.parameter @w : tensor<18x6xf32> zeros

// -----

// expected-error @below {{takes 'tensor<?x0xi32>', expected ids [?,T] of one token or more a sample}}
func.func @infer(%ids: tensor<?x0xi32>) {
  return
}

// -----

func.func private @unit(%x: tensor<?x4x6xf32>) -> tensor<?x4x6xf32> attributes {nn.unit} {
  // expected-remark @below {{needs whole sequences: sampling has no caches}}
  %0 = func.call @unit(%x) : (tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  return %0 : tensor<?x4x6xf32>
}
func.func @infer(%ids: tensor<?x4xi32>) -> tensor<?x4x6xf32> {
  %e = nn.get_parameter @e : tensor<8x6xf32>
  %0 = nn.embedding %ids, %e : (tensor<?x4xi32>, tensor<8x6xf32>) -> tensor<?x4x6xf32>
  %1 = func.call @unit(%0) : (tensor<?x4x6xf32>) -> tensor<?x4x6xf32>
  return %1 : tensor<?x4x6xf32>
}
nn.parameter @e : tensor<8x6xf32> zeros

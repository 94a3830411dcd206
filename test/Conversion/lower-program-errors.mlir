// RUN: poplar-opt %s --lower-program --split-input-file --verify-diagnostics

// expected-error @below {{has no memory plan: run --plan-memory first}}
module {
}

// -----

module attributes {nn.memory = {fixed = 0 : i64}} {
  func.func private @helper(tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.input_offsets = array<i64: 0>, nn.result_offset = 0 : i64} {
    // expected-error @below {{calls a function that is no planned unit}}
    %0 = call @helper(%x) {nn.offsets = array<i64: 0>} : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
}

// -----

module attributes {nn.memory = {fixed = 0 : i64}} {
  func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
      attributes {nn.input_offsets = array<i64: 0>, nn.result_offset = 0 : i64} {
    // expected-error @below {{cannot be lowered: it is neither in a kernel nor a call of the runtime}}
    %0 = nn.silu %x {nn.offsets = array<i64: 0>} : tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
}

// -----

// A unit's results are written where its caller says: each needs a place.
module attributes {nn.memory = {fixed = 0 : i64}} {
  func.func @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
    // expected-error @below {{operand #0 has no buffer of its own}}
    return %x : tensor<?x4x8xf32>
  }
}

// -----

module attributes {nn.memory = {fixed = 0 : i64}} {
  func.func @unit(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
    %0 = nn.linear %x, %w {nn.offsets = array<i64: -1>} : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    // expected-error @below {{operand #1 has no buffer of its own}}
    return %0, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
  }
}

// RUN: poplar-opt %s -split-input-file -verify-diagnostics

// The nn.model dictionary agrees with the program, wherever one can be looked at.

// expected-error @below {{nn.model must be a dictionary on a module}}
module attributes {nn.model = 1 : i64} {}

// -----

// expected-error @below {{nn.model: unknown key 'vocab'}}
module attributes {nn.model = {vocab = 16 : i64}} {}

// -----

// expected-error @below {{nn.model: vocab_size is not an i64}}
module attributes {nn.model = {vocab_size = "16"}} {}

// -----

// expected-error @below {{nn.model: seq_len is 0, expected 1 or more}}
module attributes {nn.model = {seq_len = 0 : i64}} {}

// -----

// expected-error @below {{nn.model: objective is 'xx', expected 'causal' or 'masked'}}
module attributes {nn.model = {objective = "xx"}} {}

// -----

// expected-error @below {{nn.model: activations of this model overflow f16: use precision bf16 or f32}}
module attributes {nn.model = {precision = "f16", unsafe_precision = "f16"}} {}

// -----

// expected-error @below {{nn.model: precision is 'f8', expected f32, tf32, bf16 or f16}}
module attributes {nn.model = {precision = "f8"}} {}

// -----

// expected-error @below {{nn.model: architecture is 'a\0Ab'}}
module attributes {nn.model = {architecture = "a\0Ab"}} {}

// -----

// expected-error @below {{nn.model: config is not JSON: }}
module attributes {nn.model = {config = "{"}} {}

// -----

// expected-error @below {{nn.model: config is not a JSON object}}
module attributes {nn.model = {config = "[]"}} {}

// -----

// expected-error @below {{nn.model: num_layers is 2, but config says "n_layer": 3}}
module attributes {nn.model = {num_layers = 2 : i64, config = "{\22n_layer\22: 3}"}} {}

// -----

// expected-error @below {{nn.model: mask_token_id is 16, but the vocabulary has 16 tokens}}
module attributes {nn.model = {mask_token_id = 16 : i64, vocab_size = 16 : i64}} {}

// -----

// expected-error @below {{nn.model: seq_len is 64, but @model takes ids of 8}}
module attributes {nn.model = {seq_len = 64 : i64}} {
  // expected-note @below {{here}}
  func.func @model(%ids: tensor<?x8xi32>) {
    return
  }
}

// -----

// expected-error @below {{nn.model: vocab_size is 65536, but the table of an nn.embedding has rows: 16}}
module attributes {nn.model = {vocab_size = 65536 : i64}} {
  func.func @model(%ids: tensor<?x8xi32>, %table: tensor<16x4xf32>) {
    // expected-note @below {{here}}
    %0 = nn.embedding %ids, %table : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    return
  }
}

// -----

// expected-error @below {{nn.model: hidden_size is 8, but the rows of an nn.embedding have elements: 4}}
module attributes {nn.model = {hidden_size = 8 : i64}} {
  func.func @model(%ids: tensor<?x8xi32>, %table: tensor<16x4xf32>) {
    // expected-note @below {{here}}
    %0 = nn.embedding %ids, %table : (tensor<?x8xi32>, tensor<16x4xf32>) -> tensor<?x8x4xf32>
    return
  }
}

// -----

// expected-error @below {{nn.model: vocab_size is 17, but the logits of the loss are 16}}
module attributes {nn.model = {vocab_size = 17 : i64}} {
  func.func @model(%ids: tensor<?x8xi32>, %logits: tensor<?x8x16xf32>) {
    // expected-note @below {{here}}
    %loss, %lse = nn.cross_entropy %logits, %ids : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return
  }
}

// -----

// expected-error @below {{nn.model: num_parameters is 5, but the parameters have elements: 68}}
module attributes {nn.model = {num_parameters = 5 : i64}} {
  nn.parameter @w : tensor<16x4xf32> ones
  // expected-note @below {{here}}
  nn.parameter @b : tensor<4xf32> ones
  func.func @model(%ids: tensor<?x8xi32>) {
    return
  }
}

// -----

// Layers may be of several units.

// expected-error @below {{nn.model: num_layers is 2, but @model computes attention so often: 3}}
module attributes {nn.model = {num_layers = 2 : i64}} {
  func.func private @block(%q: tensor<?x8x4xf32>) attributes {nn.unit} {
    %out, %lse = nn.attention %q, %q, %q causal heads 1 kv_heads 1 scale 0.5 : (tensor<?x8x4xf32>, tensor<?x8x4xf32>, tensor<?x8x4xf32>) -> (tensor<?x8x4xf32>, tensor<?x1x8xf32>)
    return
  }
  func.func private @other(%q: tensor<?x8x4xf32>) attributes {nn.unit} {
    %out, %lse = nn.attention %q, %q, %q causal heads 2 kv_heads 2 scale 0.5 : (tensor<?x8x4xf32>, tensor<?x8x4xf32>, tensor<?x8x4xf32>) -> (tensor<?x8x4xf32>, tensor<?x2x8xf32>)
    return
  }
  // expected-note @below {{here}}
  func.func @model(%ids: tensor<?x8xi32>, %q: tensor<?x8x4xf32>) {
    call @block(%q) : (tensor<?x8x4xf32>) -> ()
    call @block(%q) : (tensor<?x8x4xf32>) -> ()
    call @other(%q) : (tensor<?x8x4xf32>) -> ()
    return
  }
}

// -----

// expected-error @below {{nn.model: objective is 'masked', but an nn.attention is causal}}
module attributes {nn.model = {objective = "masked"}} {
  func.func @model(%ids: tensor<?x8xi32>, %q: tensor<?x8x4xf32>) {
    // expected-note @below {{here}}
    %out, %lse = nn.attention %q, %q, %q causal heads 1 kv_heads 1 scale 0.5 : (tensor<?x8x4xf32>, tensor<?x8x4xf32>, tensor<?x8x4xf32>) -> (tensor<?x8x4xf32>, tensor<?x1x8xf32>)
    return
  }
}

// -----

// expected-error @below {{"nn.units" is not an attribute of an operation}}
func.func private @layer() attributes {nn.units}

// -----

// expected-error @below {{nn.random must be a unit attribute on a module}}
func.func private @layer() attributes {nn.random}

// -----

// expected-error @below {{nn.chunk_bytes must be a number of bytes on a unit}}
func.func private @layer() attributes {nn.chunk_bytes = 64 : i64}

// -----

// expected-error @below {{nn.chunk_bytes must be a number of bytes on a unit}}
func.func private @layer() attributes {nn.unit, nn.chunk_bytes = 0 : i64}

// -----

// expected-error @below {{nn.unit must be a unit attribute on a function}}
func.func private @layer() attributes {nn.unit = 1 : i64}

// -----

// expected-error @below {{"nn.params" is not an argument attribute}}
func.func private @layer(tensor<4xf32> {nn.params})

// -----

// What an op says of itself is not yet verified when its module is.
module attributes {nn.model = {num_parameters = 1 : i64}} {
  // expected-error @below {{attribute 'type' failed to satisfy constraint}}
  "nn.parameter"() <{init = #nn<init ones>, sym_name = "p", type = i32}> : () -> ()
  func.func @model(%ids: tensor<?x4xi32>) {
    return
  }
}

// -----

module attributes {nn.model = {seq_len = 4 : i64}} {
  // expected-error @below {{attribute 'function_type' failed to satisfy constraint}}
  "func.func"() <{function_type = i32, sym_name = "model"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}

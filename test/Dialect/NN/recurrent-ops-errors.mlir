// RUN: poplar-opt %s --split-input-file --verify-diagnostics

func.func @taps(%x: tensor<?x4x8xf32>, %w: tensor<8x1x17xf32>) {
  // expected-error @below {{weight has 17 taps, expected 1 to 16}}
  %0 = nn.causal_conv %x, %w : (tensor<?x4x8xf32>, tensor<8x1x17xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @filters(%x: tensor<?x4x8xf32>, %w: tensor<4x1x4xf32>) {
  // expected-error @below {{weight is 'tensor<4x1x4xf32>', expected 'tensor<8x1x4xf32>'}}
  %0 = nn.causal_conv %x, %w : (tensor<?x4x8xf32>, tensor<4x1x4xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @positions(%x: tensor<?x4x8xf32>, %w: tensor<8x1x4xf32>, %at: tensor<?x3xi32>) {
  // expected-error @below {{positions are 'tensor<?x3xi32>', expected one for each token of 'tensor<?x4x8xf32>'}}
  %0 = nn.causal_conv %x, %w at %at : (tensor<?x4x8xf32>, tensor<8x1x4xf32>, tensor<?x3xi32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @cache(%x: tensor<?x4x8xf32>, %w: tensor<8x1x4xf32>, %at: tensor<?x4xi32>, %cache: tensor<?x4x8xf32>) {
  // expected-error @below {{cache is 'tensor<?x4x8xf32>', expected 'tensor<?x3x8xf32>'}}
  %0:2 = nn.cached_causal_conv %x, %w at %at cache %cache : (tensor<?x4x8xf32>, tensor<8x1x4xf32>, tensor<?x4xi32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>)
  return
}

// -----

func.func @heads(%x: tensor<?x4x32xf32>, %a: tensor<?x4x4xf32>, %log: tensor<4xf32>) {
  // expected-error @below {{4 value heads cannot share 3 key heads evenly}}
  %0 = nn.gated_delta %x, %a, %a, %log, %log key_heads 3 value_heads 4 : (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x20xf32>
  return
}

// -----

func.func @columns(%x: tensor<?x4x31xf32>, %a: tensor<?x4x4xf32>, %log: tensor<4xf32>) {
  // expected-error @below {{cannot divide 'tensor<?x4x31xf32>' into queries and keys of 2 heads and values of 4 heads, 20 columns in all}}
  %0 = nn.gated_delta %x, %a, %a, %log, %log key_heads 2 value_heads 4 : (tensor<?x4x31xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x20xf32>
  return
}

// -----

func.func @wide(%x: tensor<?x4x280xf32>, %a: tensor<?x4x1xf32>, %log: tensor<1xf32>) {
  // expected-error @below {{has heads of 130 columns of keys and 20 of values, expected at most 128}}
  %0 = nn.gated_delta %x, %a, %a, %log, %log key_heads 1 value_heads 1 : (tensor<?x4x280xf32>, tensor<?x4x1xf32>, tensor<?x4x1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<?x4x20xf32>
  return
}

// -----

func.func @gates(%x: tensor<?x4x32xf32>, %a: tensor<?x4x4xf32>, %log: tensor<4xf32>, %b: tensor<?x4x2xf32>) {
  // expected-error @below {{b is 'tensor<?x4x2xf32>', expected 'tensor<?x4x4xf32>'}}
  %0 = nn.gated_delta %x, %a, %b, %log, %log key_heads 2 value_heads 4 : (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x2xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x4x20xf32>
  return
}

// -----

func.func @scratch(%dy: tensor<?x4x20xf32>, %x: tensor<?x4x32xf32>, %a: tensor<?x4x4xf32>, %log: tensor<4xf32>) {
  // expected-error @below {{scratch is 'tensor<?x8xf32>', expected 'tensor<?x864xf32>'}}
  %6:5 = nn.gated_delta_grad %dy, %x, %a, %a, %log, %log key_heads 2 value_heads 4 : (tensor<?x4x20xf32>, tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> (tensor<?x4x32xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x8xf32>)
  return
}

// -----

func.func @state(%x: tensor<?x1x32xf32>, %a: tensor<?x1x4xf32>, %log: tensor<4xf32>, %at: tensor<?x1xi32>, %state: tensor<?x4x5x3xf32>) {
  // expected-error @below {{state is 'tensor<?x4x5x3xf32>', expected 'tensor<?x4x3x5xf32>'}}
  %0:2 = nn.cached_gated_delta %x, %a, %a, %log, %log at %at state %state key_heads 2 value_heads 4 : (tensor<?x1x32xf32>, tensor<?x1x4xf32>, tensor<?x1x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<?x1xi32>, tensor<?x4x5x3xf32>) -> (tensor<?x1x20xf32>, tensor<?x4x5x3xf32>)
  return
}

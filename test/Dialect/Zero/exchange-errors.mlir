// RUN: poplar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x2x4xf32>) {
  // expected-error @below {{has 1 results to collect among 2 ranks, expected one to gather_tokens, or one for each rank to scatter_tokens}}
  %0 = zero.start_exchange collect %x bounds [0, 2, 8] position 0 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>) {
  // expected-error @below {{is at position 2 of 2 ranks}}
  %0 = zero.start_exchange gather_tokens %x bounds [0, 2, 8] position 2 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>) {
  // expected-error @below {{which the bounds [0, 3, 8] do not fit}}
  %0 = zero.start_exchange gather_tokens %x bounds [0, 3, 8] position 0 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>, %y: tensor<?x2x4xf32>) {
  %0 = zero.start_exchange gather_tokens %x bounds [0, 2, 8] position 0 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  // expected-error @below {{must take all results of one zero.start_exchange and its value}}
  %1 = zero.wait_exchange %0 of %y : tensor<?x8x4xf32> of tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>, %y: tensor<?x3x4xf32>) {
  // expected-error @below {{adds 'tensor<?x3x4xf32>' to 'tensor<?x2x4xf32>'}}
  %0 = zero.sum_exchange %x, %y : tensor<?x2x4xf32>, tensor<?x3x4xf32> -> tensor<?x2x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>) {
  // expected-error @below {{has 9 pieces, expected 1 to 8}}
  %0 = zero.start_exchange gather_tokens %x bounds [0, 2, 8] position 0 pieces 9 : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x4xf32>) {
  // expected-error @below {{is chained, but no tokens were scattered before in the same pieces}}
  %0 = zero.start_exchange gather_tokens %x bounds [0, 2, 8] position 0 pieces 2 chained : tensor<?x2x4xf32> -> tensor<?x8x4xf32>
  return
}

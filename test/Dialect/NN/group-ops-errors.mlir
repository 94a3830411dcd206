// RUN: poplar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x4x3xf32>) {
  // expected-error @below {{chooses 3 experts for each token of 'tensor<?x4x3xf32>', but has scores 'tensor<?x8xf32>'}}
  %0:2 = nn.route %x top_k 3 : (tensor<?x4x3xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x3xf32>) {
  // expected-error @below {{chooses 4 of 3 experts}}
  %0:2 = nn.route %x top_k 4 : (tensor<?x4x3xf32>) -> (tensor<?x16xf32>, tensor<?x16xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x3xf32>) {
  // expected-error @below {{experts is 'tensor<?x7xi32>', expected some elements for each token}}
  %0:2 = nn.route %x top_k 2 : (tensor<?x4x3xf32>) -> (tensor<?x7xf32>, tensor<?x7xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %e: tensor<?x8xi32>, %w: tensor<16x8xf32>, %v: tensor<8x16xf32>) {
  // expected-error @below {{expected those of experts to be alike}}
  %0 = nn.expert_linear %x, %e, %w, %v : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<?x4x32xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %e: tensor<?x8xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{the result has 24 columns, expected 16 or 2 times that}}
  %0 = nn.expert_linear %x, %e, %w : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x4x24xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x9xf32>, %s: tensor<?x8xf32>) {
  // expected-error @below {{cannot divide the columns of 'tensor<?x4x9xf32>' among 2 experts}}
  %0 = nn.weigh %x, %s : (tensor<?x4x9xf32>, tensor<?x8xf32>) -> tensor<?x4x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{cannot divide 8 columns into 2 groups of 3 parts}}
  %0 = nn.regroup %x groups 2 parts 3 : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x0x3xf32>) {
  // expected-error @below {{experts is 'tensor<?x0xi32>', expected some elements for each token}}
  %0:2 = nn.route %x top_k 2 : (tensor<?x0x3xf32>) -> (tensor<?x0xf32>, tensor<?x0xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x12xf32>) {
  // expected-error @below {{cannot divide 12 columns into 2 groups of parts of 1, 3}}
  %0 = nn.regroup_parts %x groups 2 widths [1, 3] : tensor<?x4x12xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x12xf32>) {
  // expected-error @below {{cannot divide 12 columns into 2 groups of parts of 7, -1}}
  %0 = nn.regroup_parts %x groups 2 widths [7, -1] : tensor<?x4x12xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x2xf32>) {
  // expected-error @below {{has scores 'tensor<?x8xf32>' of logits 'tensor<?x4x2xf32>', expected one logit for each}}
  %0 = nn.score %x : (tensor<?x4x2xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%d: tensor<?x8xf32>, %s: tensor<?x4xf32>) {
  // expected-error @below {{dscores is 'tensor<?x8xf32>', expected the type of scores 'tensor<?x4xf32>'}}
  %0 = nn.score_grad %d, %s : (tensor<?x8xf32>, tensor<?x4xf32>) -> tensor<?x4x1xf32>
  return
}

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

// -----

func.func @f(%x: tensor<?x4x8xf32>, %e: tensor<?x8xi32>, %w: tensor<3x8x16xf32>) {
  // expected-error @below {{has 2 stacks of weights, expected one}}
  %0 = nn.expert_linear %x, %e, %w, %w layout in_out : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<3x8x16xf32>, tensor<3x8x16xf32>) -> tensor<?x4x32xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %e: tensor<?x8xi32>, %b: tensor<3x16xf32>) {
  // expected-error @below {{has rows of 8 columns, expected 32 of biases 'tensor<3x16xf32>'}}
  %0 = nn.expert_bias %x, %e, %b : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %e: tensor<?x8xi32>, %b: tensor<3x16xf32>) {
  // expected-error @below {{has rows of 8 columns, expected 32 of biases 'tensor<3x16xf32>'}}
  %0 = nn.expert_bias_grad %x, %e into %b : (tensor<?x4x8xf32>, tensor<?x8xi32>, tensor<3x16xf32>) -> tensor<3x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4xf32>, %e: tensor<?x8xi32>) {
  // expected-error @below {{has scores 'tensor<?x4xf32>' of experts 'tensor<?x8xi32>', expected one of each}}
  %0 = nn.spread_scores %s, %e : (tensor<?x4xf32>, tensor<?x8xi32>) -> tensor<?x4x3xf32>
  return
}

// -----

func.func @f(%d: tensor<?x3x3xf32>, %e: tensor<?x8xi32>) {
  // expected-error @below {{experts is 'tensor<?x8xi32>', expected some elements for each token of 'tensor<?x3x3xf32>'}}
  %0 = nn.spread_scores_grad %d, %e : (tensor<?x3x3xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{has 'tensor<?x4x8xf32>' beside 'tensor<?x4x8xf32>', expected two columns for each}}
  %0 = nn.clamped_glu %x alpha 1.702 limit 7.0 : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%d: tensor<?x4x4xf32>, %x: tensor<?x4x8xf32>) {
  // expected-error @below {{has alpha 1.702000e+00 and limit 0.000000e+00, expected finite numbers, the limit above 0}}
  %0 = nn.clamped_glu_grad %d, %x alpha 1.702 limit 0.0 : (tensor<?x4x4xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x2x4xf32>, %s: tensor<3xf32>) {
  // expected-error @below {{expected one type, with 3 heads}}
  %0 = nn.sink_grad %x, %x lse %l sinks %s : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<3xf32>) -> tensor<?x4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x4x2xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{has lse 'tensor<?x4x2xf32>' and the result 'tensor<?x4x2xf32>', expected one number for each row of a head}}
  %0 = nn.sink_grad %x, %x lse %l sinks %s : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x2xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{cannot choose 2 of 8 experts from 1 of 3 groups}}
  %0:2 = nn.route %x top_k 2 groups 3 sigmoid : (tensor<?x4x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{cannot choose 3 of 8 experts from 1 of 4 groups}}
  %0:2 = nn.route %x top_k 3 groups 4 sigmoid : (tensor<?x4x8xf32>) -> (tensor<?x12xf32>, tensor<?x12xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %b: tensor<1x8xf32>) {
  // expected-error @below {{has the bias 'tensor<1x8xf32>', expected 3 rows of 8}}
  %0:2 = nn.route %x bias %b top_k 2 sigmoid : (tensor<?x4x8xf32>, tensor<1x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %b: tensor<3x8xf32>) {
  // expected-error @below {{has a bias beside scores of a softmax that are not normalized}}
  %0:2 = nn.route %x bias %b top_k 2 : (tensor<?x4x8xf32>, tensor<3x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xi32>)
  return
}

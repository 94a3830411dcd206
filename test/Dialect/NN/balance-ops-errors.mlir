// RUN: poplar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>) {
  // expected-error @below {{has parts of 16 columns, and a result of 12}}
  %0 = nn.join %x, %y : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x12xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xbf16>) {
  // expected-error @below {{has 'tensor<?x4x8xbf16>' as a part of 'tensor<?x4x16xf32>', expected other columns only}}
  %0 = nn.join %x, %y : (tensor<?x4x8xf32>, tensor<?x4x8xbf16>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4x8xf32>, %l: tensor<?x4x3xf32>, %e: tensor<?x8xi32>) {
  // expected-error @below {{has sums 'tensor<?x4x8xf32>', expected two columns for each of logits 'tensor<?x4x3xf32>'}}
  %0 = nn.count_experts %s, %l, %e : (tensor<?x4x8xf32>, tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4x6xf32>, %l: tensor<?x4x3xf32>, %e: tensor<?x7xi32>) {
  // expected-error @below {{has experts 'tensor<?x7xi32>', expected some elements for each token}}
  %0 = nn.count_experts %s, %l, %e : (tensor<?x4x6xf32>, tensor<?x4x3xf32>, tensor<?x7xi32>) -> tensor<?x4x6xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4x6xf32>, %l: tensor<?x4xf32>, %t: tensor<?x5xi32>) {
  // expected-error @below {{has losses 'tensor<?x4xf32>', targets 'tensor<?x5xi32>' and sums 'tensor<?x4x6xf32>', expected one of each for a token}}
  %0 = nn.balance_loss %l, %t, %s factor 1.0 : tensor<?x4xf32>, tensor<?x5xi32>, tensor<?x4x6xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4x5xf32>, %l: tensor<?x4xf32>, %t: tensor<?x4xi32>) {
  // expected-error @below {{has sums 'tensor<?x4x5xf32>', expected two columns for each expert}}
  %0 = nn.balance_loss %l, %t, %s factor 1.0 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x5xf32>
  return
}

// -----

func.func @f(%s: tensor<?x4x6xf32>, %l: tensor<?x4xf32>, %t: tensor<?x4xi32>) {
  // expected-error @below {{factor is 0}}
  %0 = nn.balance_loss %l, %t, %s factor 0.0 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  return
}

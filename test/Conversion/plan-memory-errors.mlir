// RUN: poplar-opt %s --plan-memory --split-input-file --verify-diagnostics

func.func private @columns(tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
    attributes {nn.kernel = "columns", nn.parts = 8 : i64}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8xf32>
  // expected-error @below {{result #0 of type 'tensor<8xf32>' is neither of the batch nor accumulated into a parameter's gradient; such temporaries have no place in the arena}}
  %0 = call @columns(%x, %w) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8xf32> ones

// -----

// expected-error @below {{has an argument without a batch dimension}}
func.func @infer(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// expected-error @below {{has to return one value}}
func.func @infer(%x: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> ones

// -----

func.func @infer(%x: tensor<?x4x8xf16>) -> tensor<?x4x8xf16> {
  %w = nn.get_parameter @w : tensor<8x8xf16>
  // expected-error @below {{has no product in f16 on this CPU}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf16>, tensor<8x8xf16>) -> tensor<?x4x8xf16>
  return %0 : tensor<?x4x8xf16>
}
nn.parameter @w : tensor<8x8xf32> ones

// -----

// More bytes than 64 bits count.
func.func @infer(%x: tensor<?x2147483648x8xf32>) -> tensor<?x2147483648x2147483648xf32> {
  %w = nn.get_parameter @w : tensor<2147483648x8xf32>
  // expected-error @below {{result #0 of type 'tensor<?x2147483648x2147483648xf32>' takes more than 2^40 bytes a sample}}
  %0 = nn.linear %x, %w : (tensor<?x2147483648x8xf32>, tensor<2147483648x8xf32>) -> tensor<?x2147483648x2147483648xf32>
  return %0 : tensor<?x2147483648x2147483648xf32>
}
nn.parameter @w : tensor<2147483648x8xf32> ones

// -----

// expected-error @below {{has an argument of more than 2^40 bytes a sample}}
func.func @infer(%x: tensor<?x2147483648x2147483648xf32>) -> tensor<?x2147483648x2147483648xf32> {
  return %x : tensor<?x2147483648x2147483648xf32>
}

// RUN: poplar-opt %s --zero-form-buckets --split-input-file --verify-diagnostics
// RUN: not poplar-opt %s --zero-form-buckets=min-bytes=-1 --split-input-file 2>&1 | FileCheck %s
// CHECK: option min-bytes is -1, expected a number of bytes

// expected-error @below {{has no function @model to take the units from}}
module {
  nn.parameter @w : tensor<8xf32> ones
}

// -----

// expected-error @below {{has no function @model to take the units from}}
module {
  func.func private @model(tensor<?x4xi32>)
}

// -----

nn.parameter @w : tensor<8xf32> ones
// expected-error @below {{is there already: buckets are formed once}}
zero.bucket @bucket [@w]
func.func @model() {
  return
}

// -----

// Nobody would ever add to its gradient.
// expected-error @below {{is not used by @model}}
nn.parameter @w : tensor<8xf32> ones
func.func @model() {
  %0 = nn.get_parameter @w : tensor<8xf32>
  return
}

// -----

// expected-error @below {{is not used by @model}}
nn.parameter @w : tensor<8xf32> ones
func.func @model() {
  return
}

// -----

// expected-error @below {{has nothing to train: all its parameters are frozen}}
module {
  nn.parameter @f : tensor<8x8xf32> ones frozen
  func.func private @block(tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
  func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
    %f = nn.get_parameter @f : tensor<8x8xf32>
    %0 = call @block(%x, %f) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
}

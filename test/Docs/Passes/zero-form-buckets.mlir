// RUN: poplar-opt %s --zero-form-buckets=min-bytes=64 | FileCheck %s

// @bias has 32 bytes only, so it joins the bucket before it.
nn.parameter @weight : tensor<8x8xf32> ones
nn.parameter @bias : tensor<8xf32> zeros
func.func private @linear(tensor<?x4x8xf32>, tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @add(tensor<?x4x8xf32>, tensor<8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @weight : tensor<8x8xf32>
  %b = nn.get_parameter @bias : tensor<8xf32>
  %0 = call @linear(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @add(%0, %b) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   zero.bucket @linear.0 [@weight, @bias]

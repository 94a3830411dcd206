// RUN: poplar-opt %s --nn-quantize-frozen="format=nf4" | FileCheck %s

// A frozen weight becomes a matrix of quantised elements, wherever it is read.
nn.parameter @q.weight : tensor<8x8xf32> normal std 0.02 frozen
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @q.weight : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   nn.parameter @q.weight : tensor<8x8x!nn.quantized<nf4>>  normal std 2.000000e-02 frozen
// CHECK-NEXT:   func.func private @block(%arg0: tensor<?x4x8xf32>, %arg1: tensor<8x8x!nn.quantized<nf4>> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %0 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT:   func.func @model(%arg0: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
// CHECK-NEXT:     %0 = nn.get_parameter @q.weight : tensor<8x8x!nn.quantized<nf4>>
// CHECK-NEXT:     %1 = call @block(%arg0, %0) : (tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>) -> tensor<?x4x8xf32>
// CHECK-NEXT:     return %1 : tensor<?x4x8xf32>
// CHECK-NEXT:   }
// CHECK-NEXT: }

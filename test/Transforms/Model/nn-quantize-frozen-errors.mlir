// RUN: not poplar-opt %s --nn-quantize-frozen="format=fp4" 2>&1 | FileCheck %s --check-prefix=FORMAT
// RUN: not poplar-opt %s --nn-quantize-frozen="format=int8" 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: sed -e 's/ frozen$//' %s | not poplar-opt --nn-quantize-frozen 2>&1 | FileCheck %s --check-prefix=TRAINED

// FORMAT: error: unknown format 'fp4' of frozen weights (known: nf4, nf4_double, int8)
// LAYOUT: error: 'nn.linear' op has a weight [in, out], but int8 needs rows that are outputs, for its scales: use nf4
// TRAINED: error: has no frozen weights of linear layers to quantise

nn.parameter @w : tensor<8x8xf32> ones frozen
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w layout in_out : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

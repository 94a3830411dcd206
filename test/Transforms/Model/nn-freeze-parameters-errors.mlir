// RUN: not poplar-opt %s --nn-freeze-parameters 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not poplar-opt %s --nn-freeze-parameters="trained=q.weight,k.weight" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: sed "s/attributes {nn.unit}//" %s | not poplar-opt --nn-freeze-parameters="trained=q.weight" 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not poplar-opt %s --nn-add-adapters="targets=q" --nn-freeze-parameters="trained=q.weight" 2>&1 | FileCheck %s --check-prefix=ADAPTERS

// NONE: error: there are no parameters to train: name some
// UNKNOWN: error: no parameter to train is called 'k.weight'
// UNIT: error: 'func.call' op expected a call of a unit
// ADAPTERS: error: has adapters, beside which all other parameters are frozen

module attributes {nn.model = {vocab_size = 16 : i64}} {
nn.parameter @q.weight : tensor<8x8xf32> normal std 2.0e-02 decay
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @q.weight : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
}

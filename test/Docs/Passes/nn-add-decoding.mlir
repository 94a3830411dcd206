// RUN: poplar-opt %s --nn-add-decoding | FileCheck %s

func.func private @block(%x: tensor<?x16x12xf32>) -> tensor<?x16x4xf32> attributes {nn.unit} {
  %0:2 = nn.attention %x causal heads 2 kv_heads 2 scale 0.5 : (tensor<?x16x12xf32>) -> (tensor<?x16x4xf32>, tensor<?x2x16xf32>)
  return %0#0 : tensor<?x16x4xf32>
}
nn.parameter @w : tensor<8x12xf32> normal std 0.02
func.func @infer(%ids: tensor<?x16xi32>) -> tensor<?x16x4xf32> {
  %w = nn.get_parameter @w : tensor<8x12xf32>
  %0 = nn.embedding %ids, %w : (tensor<?x16xi32>, tensor<8x12xf32>) -> tensor<?x16x12xf32>
  %1 = call @block(%0) : (tensor<?x16x12xf32>) -> tensor<?x16x4xf32>
  return %1 : tensor<?x16x4xf32>
}

// The result:
//
// CHECK:   func.func private @block.decode(%arg0: tensor<?x1x12xf32>, %arg1: tensor<?x1xi32>, %arg2: tensor<?x2x16x2xf32> {nn.cache}, %arg3: tensor<?x2x16x2xf32> {nn.cache}) -> (tensor<?x1x4xf32>, tensor<?x2x16x2xf32>, tensor<?x2x16x2xf32>) attributes {nn.decoding = 1 : i64, nn.unit} {

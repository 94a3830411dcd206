// A model whose logits are capped as Gemma 2's are; the rows of the table are
// its logits.

nn.parameter @table : tensor<16x16xf32> normal std 2.0e-02 decay

func.func private @embed(%ids: tensor<?x4xi32>, %table: tensor<16x16xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %table : (tensor<?x4xi32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

func.func private @cap(%x: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = example.softcap %x cap 3.0 : tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %table = nn.get_parameter @table : tensor<16x16xf32>
  %0 = call @embed(%ids, %table) : (tensor<?x4xi32>, tensor<16x16xf32>) -> tensor<?x4x16xf32>
  %1 = call @cap(%0) : (tensor<?x4x16xf32>) -> tensor<?x4x16xf32>
  %loss, %lse = nn.cross_entropy %1, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %loss : tensor<?x4xf32>
}

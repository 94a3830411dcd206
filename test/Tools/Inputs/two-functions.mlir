func.func private @first(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>)
    -> tensor<?x4x8xf32> {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

func.func @second(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>, %b: tensor<8xf32>)
    -> tensor<?x4x8xf32> {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w bias %b : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.gelu %1 form tanh : tensor<?x4x8xf32>
  %3 = nn.add %x, %2 : tensor<?x4x8xf32>
  return %3 : tensor<?x4x8xf32>
}

// RUN: poplar-opt %s --zero-form-buckets --specialize-device-types | FileCheck %s

// Parameters whose moments are in 8 bits come first, each from a multiple of 256
// on: 4864 + 4096 + 32 elements. Shards do not end inside of a block, either.
// CHECK: zero.bucket @block.0 [@a.weight, @b.weight, @a.bias] bounds [0, 3072, 8992]
// What is frozen has no moments.
// CHECK: zero.bucket @block.0.frozen [@c.weight] frozen bounds [0, 1360, 4096]

module attributes {nn.model = {state_bits = 8 : i64}} {
cluster.device_type @host target "host:avx2-f32" memory 1073741824 precision f32 recompute "keep"
cluster.node @n devices [@host, @host]
cluster.link inside nodes latency 0.0 bandwidth 1.0e+09
nn.parameter @a.bias : tensor<8xf32> zeros
nn.parameter @a.weight : tensor<600x8xf32> normal std 2.0e-02 decay
nn.parameter @b.weight : tensor<512x8xf32> normal std 2.0e-02 decay
nn.parameter @c.weight : tensor<512x8xf32> normal std 2.0e-02 frozen
func.func private @block(%x: tensor<?x4x8xf32>, %ab: tensor<8xf32> {nn.parameter}, %a: tensor<600x8xf32> {nn.parameter}, %b: tensor<512x8xf32> {nn.parameter}, %c: tensor<512x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  return %x : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %ab = nn.get_parameter @a.bias : tensor<8xf32>
  %a = nn.get_parameter @a.weight : tensor<600x8xf32>
  %b = nn.get_parameter @b.weight : tensor<512x8xf32>
  %c = nn.get_parameter @c.weight : tensor<512x8xf32>
  %0 = call @block(%x, %ab, %a, %b, %c) : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<600x8xf32>, tensor<512x8xf32>, tensor<512x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
zero.plan stage 1 global_batch 2 policy "exact" {
  zero.rank @host node "n" micro_batch 1 steps 1 last 1 state 1.0
  zero.rank @host node "n" micro_batch 1 steps 1 last 1 state 2.0
}
}

// RUN: poplar-opt %s --poplar-plan="workspace-bytes=64 decoding=true" | FileCheck %s

// What sampling needs changes nothing in the memory of training.
// RUN: poplar-opt %s --poplar-plan="workspace-bytes=64" | grep exec.arena > %t.training
// RUN: poplar-opt %s --poplar-plan="workspace-bytes=64 decoding=true" | grep exec.arena \
// RUN:   | sed "s/ sampling .*//" > %t.both
// RUN: cmp %t.training %t.both

// The caches of keys and of values of 2 calls, 2 heads, 32 positions and 2 columns
// take 512 bytes each, behind the buffers of all functions.
// CHECK: exec.arena fixed {{.*}} sampling {{[0-9]+}} caches {{[0-9]+}}

// CHECK-LABEL: exec.function unit @block.decode(
// CHECK-SAME:    memref<?x2x32x2xf32>, %{{[^:]*}}: memref<?x2x32x2xf32>, %{{[^:]*}}: memref<?x1x4xf32>) scratch {{[0-9]+}} decoding 1
// CHECK:         exec.cached_attention
// CHECK-LABEL: exec.function step @decode() inputs <ids = 0, positions = 64> result {{[0-9]+}} : memref<?x1x8xf32> decoding 1
// CHECK-DAG:     exec.buffer cache at 0 : memref<?x2x32x2xf32>
// CHECK-DAG:     exec.buffer cache at 512 : memref<?x2x32x2xf32>
// CHECK-DAG:     exec.buffer cache at 1024 : memref<?x2x32x2xf32>
// CHECK-DAG:     exec.buffer cache at 1536 : memref<?x2x32x2xf32>
// CHECK:         exec.return

module attributes {nn.model = {vocab_size = 8 : i64, seq_len = 20 : i64, objective = "causal", num_layers = 2 : i64, num_parameters = 176 : i64}} {
nn.parameter @w : tensor<12x4xf32> normal std 0.02
nn.parameter @e : tensor<8x4xf32> normal std 0.02
nn.parameter @p : tensor<24x4xf32> normal std 0.02

func.func private @embed(%ids: tensor<?x20xi32>, %e: tensor<8x4xf32> {nn.parameter}, %p: tensor<24x4xf32> {nn.parameter}) -> tensor<?x20x4xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %e : (tensor<?x20xi32>, tensor<8x4xf32>) -> tensor<?x20x4xf32>
  %1 = nn.position_embedding %0, %p : (tensor<?x20x4xf32>, tensor<24x4xf32>) -> tensor<?x20x4xf32>
  return %1 : tensor<?x20x4xf32>
}
func.func private @block(%x: tensor<?x20x4xf32>, %w: tensor<12x4xf32> {nn.parameter}) -> tensor<?x20x4xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x20x4xf32>, tensor<12x4xf32>) -> tensor<?x20x12xf32>
  %1 = nn.rope %0 head_dim 2 inv_freq [1.0] heads 4 : tensor<?x20x12xf32>
  %2:2 = nn.attention %1 causal heads 2 kv_heads 2 scale 0.5 window 7 cap 3.0 : (tensor<?x20x12xf32>) -> (tensor<?x20x4xf32>, tensor<?x2x20xf32>)
  return %2#0 : tensor<?x20x4xf32>
}
func.func private @head(%x: tensor<?x20x4xf32>, %e: tensor<8x4xf32> {nn.parameter}) -> tensor<?x20x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %e : (tensor<?x20x4xf32>, tensor<8x4xf32>) -> tensor<?x20x8xf32>
  return %0 : tensor<?x20x8xf32>
}
func.func private @loss(%x: tensor<?x20x8xf32>, %targets: tensor<?x20xi32>) -> tensor<?x20xf32> attributes {nn.unit} {
  %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x20x8xf32>, tensor<?x20xi32>) -> (tensor<?x20xf32>, tensor<?x20xf32>)
  return %loss : tensor<?x20xf32>
}
func.func @model(%ids: tensor<?x20xi32>, %targets: tensor<?x20xi32>, %keys: tensor<?x2xi32>) -> tensor<?x20xf32> {
  %w = nn.get_parameter @w : tensor<12x4xf32>
  %e = nn.get_parameter @e : tensor<8x4xf32>
  %p = nn.get_parameter @p : tensor<24x4xf32>
  %0 = call @embed(%ids, %e, %p) : (tensor<?x20xi32>, tensor<8x4xf32>, tensor<24x4xf32>) -> tensor<?x20x4xf32>
  %1 = call @block(%0, %w) : (tensor<?x20x4xf32>, tensor<12x4xf32>) -> tensor<?x20x4xf32>
  %2 = call @block(%1, %w) : (tensor<?x20x4xf32>, tensor<12x4xf32>) -> tensor<?x20x4xf32>
  %3 = call @head(%2, %e) : (tensor<?x20x4xf32>, tensor<8x4xf32>) -> tensor<?x20x8xf32>
  %4 = call @loss(%3, %targets) : (tensor<?x20x8xf32>, tensor<?x20xi32>) -> tensor<?x20xf32>
  return %4 : tensor<?x20xf32>
}
}

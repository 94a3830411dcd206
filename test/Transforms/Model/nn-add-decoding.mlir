// RUN: poplar-opt %s --nn-differentiate --nn-add-decoding | FileCheck %s
// RUN: poplar-opt %s --nn-differentiate --nn-add-decoding="chunk=3" | FileCheck %s --check-prefix=CHUNK

// Two calls of a unit have a cache of keys and one of values each, with room for
// 20 positions in blocks of 16. A chunk is never longer than the sequence.

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

// CHECK-DAG: nn.cache @cache.0 : tensor<?x2x32x2xf32>
// CHECK-DAG: nn.cache @cache.1 : tensor<?x2x32x2xf32>
// CHECK-DAG: nn.cache @cache.2 : tensor<?x2x32x2xf32>
// CHECK-DAG: nn.cache @cache.3 : tensor<?x2x32x2xf32>
// CHECK-NOT: nn.cache @

// CHECK-LABEL: func.func private @embed.decode(
// CHECK-SAME:    %[[IDS:[^:]+]]: tensor<?x1xi32>, %{{.*}}: tensor<8x4xf32> {nn.parameter}, %{{.*}}: tensor<24x4xf32> {nn.parameter}, %[[AT:[^:]+]]: tensor<?x1xi32>)
// CHECK:         nn.position_embedding %{{.*}}, %{{.*}} at %[[AT]]
// CHECK-LABEL: func.func private @block.decode(
// CHECK-SAME:    %[[X:[^:]+]]: tensor<?x1x4xf32>, %[[W:[^:]+]]: tensor<12x4xf32> {nn.parameter}, %[[AT:[^:]+]]: tensor<?x1xi32>,
// CHECK-SAME:    %[[K:[^:]+]]: tensor<?x2x32x2xf32> {nn.cache}, %[[V:[^:]+]]: tensor<?x2x32x2xf32> {nn.cache})
// CHECK-SAME:    attributes {nn.decoding = 1 : i64, nn.unit}
// CHECK:         %[[QKV:.*]] = nn.linear %[[X]], %[[W]]
// CHECK:         %[[TURNED:.*]] = nn.rope %[[QKV]] at %[[AT]] length 20 head_dim 2
// CHECK:         %[[Y:.*]], %[[K1:.*]], %[[V1:.*]] = nn.cached_attention %[[TURNED]] at %[[AT]] caches %[[K]], %[[V]] heads 2 kv_heads 2 scale 5.000000e-01 window 7 cap 3.000000e+00
// CHECK:         return %[[Y]], %[[K1]], %[[V1]]

// CHECK-LABEL: func.func @decode(
// CHECK-SAME:    %[[IDS:[^:]+]]: tensor<?x1xi32>, %[[AT:[^:]+]]: tensor<?x1xi32>) -> tensor<?x1x8xf32> attributes {nn.decoding = 1 : i64}
// CHECK:         %[[X0:.*]] = call @embed.decode(%[[IDS]], %{{.*}}, %{{.*}}, %[[AT]])
// CHECK-DAG:     %[[K0:.*]] = nn.get_cache @cache.0
// CHECK-DAG:     %[[V0:.*]] = nn.get_cache @cache.1
// CHECK:         %[[X1:.*]]:3 = call @block.decode(%[[X0]], %{{.*}}, %[[AT]], %[[K0]], %[[V0]])
// CHECK-DAG:     %[[K1:.*]] = nn.get_cache @cache.2
// CHECK-DAG:     %[[V1:.*]] = nn.get_cache @cache.3
// CHECK:         %[[X2:.*]]:3 = call @block.decode(%[[X1]]#0, %{{.*}}, %[[AT]], %[[K1]], %[[V1]])
// CHECK:         %[[X3:.*]] = call @head.decode(%[[X2]]#0,
// CHECK:         return %[[X3]]

// CHUNK-LABEL: func.func private @block.prefill(
// CHUNK-SAME:    tensor<?x3x4xf32>
// CHUNK-LABEL: func.func @prefill(
// CHUNK-SAME:    tensor<?x3xi32>, %{{.*}}: tensor<?x3xi32>) -> tensor<?x3x8xf32> attributes {nn.decoding = 3 : i64}

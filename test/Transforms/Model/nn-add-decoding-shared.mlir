// RUN: poplar-opt %s --zero-shard-units --nn-differentiate --nn-add-decoding="chunk=3" | FileCheck %s

// The first of two devices, which has 6 of 8 tokens of a sample, three of four
// heads of keys and 12 of 16 columns of the logits. New tokens it has whole: the
// sum over the devices is added up on each, and nothing is gathered. The cache is
// of its heads.

module attributes {nn.model = {vocab_size = 16 : i64, seq_len = 8 : i64, objective = "causal"}} {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2 parts [3, 1] position 0
  nn.parameter @e.part0 : tensor<12x8xf32> zeros slice #nn.slice<of "e" shape [16, 8] dim 0 ranges [0, 12]>
  nn.parameter @w.part0 : tensor<18x8xf32> zeros slice #nn.slice<of "w" shape [24, 8] dim 0 ranges [0, 6, 8, 14, 16, 22]>
  nn.parameter @o.part0 : tensor<8x6xf32> zeros slice #nn.slice<of "o" shape [8, 8] dim 1 ranges [0, 6]>
  nn.parameter @g : tensor<8xf32> ones
  nn.parameter @e : tensor<16x8xf32> zeros
  nn.parameter @w : tensor<24x8xf32> zeros
  nn.parameter @o : tensor<8x8xf32> zeros

  // CHECK: nn.cache @cache.1 : tensor<?x3x16x2xf32>
  // CHECK: nn.cache @cache.0 : tensor<?x3x16x2xf32>

  // CHECK-LABEL: func.func private @embed.decode(
  // CHECK: %[[E:.*]] = nn.embedding %{{.*}}, %{{.*}} : (tensor<?x1xi32>, tensor<12x8xf32>) -> tensor<?x1x8xf32>
  // CHECK: %[[ALL:.*]]:2 = zero.exchange collect %[[E]] bounds [0, 6, 8] : tensor<?x1x8xf32> -> tensor<?x1x8xf32>, tensor<?x1x8xf32>
  // CHECK: %[[SUM:.*]] = zero.sum_exchange %[[ALL]]#0, %[[ALL]]#1 : tensor<?x1x8xf32>, tensor<?x1x8xf32> -> tensor<?x1x8xf32>
  // CHECK: return %[[SUM]]
  func.func private @embed(%ids: tensor<?x8xi32>, %e: tensor<16x8xf32> {nn.parameter}) -> tensor<?x8x8xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %e : (tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x8x8xf32>
    return %0 : tensor<?x8x8xf32>
  }
  // CHECK-LABEL: func.func private @block.prefill(
  // CHECK-SAME: %[[X:[^:]*]]: tensor<?x3x8xf32>
  // CHECK: %[[N:.*]], %{{.*}} = nn.rms_norm %[[X]], %{{.*}} : (tensor<?x3x8xf32>, tensor<8xf32>) -> (tensor<?x3x8xf32>, tensor<?x3xf32>)
  // CHECK-NOT: zero.gather_tokens
  // CHECK: nn.linear %[[N]], %{{.*}} : (tensor<?x3x8xf32>, tensor<18x8xf32>) -> tensor<?x3x18xf32>
  // CHECK: nn.cached_attention {{.*}} heads 3 kv_heads 3
  // CHECK: zero.exchange collect
  // CHECK: %[[SUM:.*]] = zero.sum_exchange
  // CHECK: nn.add %[[X]], %[[SUM]] : tensor<?x3x8xf32>
  func.func private @block(%x: tensor<?x8x8xf32>, %g: tensor<8xf32> {nn.parameter}, %w: tensor<24x8xf32> {nn.parameter}, %o: tensor<8x8xf32> {nn.parameter}) -> tensor<?x8x8xf32> attributes {nn.unit} {
    %n, %r = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x8x8xf32>, tensor<8xf32>) -> (tensor<?x8x8xf32>, tensor<?x8xf32>)
    %0 = nn.linear %n, %w : (tensor<?x8x8xf32>, tensor<24x8xf32>) -> tensor<?x8x24xf32>
    %1:2 = nn.attention %0 causal heads 4 kv_heads 4 scale 0.5 : (tensor<?x8x24xf32>) -> (tensor<?x8x8xf32>, tensor<?x4x8xf32>)
    %2 = nn.linear %1#0, %o : (tensor<?x8x8xf32>, tensor<8x8xf32>) -> tensor<?x8x8xf32>
    %3 = nn.add %x, %2 : tensor<?x8x8xf32>
    return %3 : tensor<?x8x8xf32>
  }
  func.func private @head(%x: tensor<?x8x8xf32>, %e: tensor<16x8xf32> {nn.parameter}) -> tensor<?x8x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %e : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    return %0 : tensor<?x8x16xf32>
  }
  func.func private @loss(%x: tensor<?x8x16xf32>, %targets: tensor<?x8xi32>) -> tensor<?x8xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %targets : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>)
    return %loss : tensor<?x8xf32>
  }
  // CHECK-LABEL: func.func @decode(
  // CHECK-SAME: -> tensor<?x1x12xf32>
  // CHECK: call @block.decode(%{{.*}}) : (tensor<?x1x8xf32>, tensor<8xf32>, tensor<18x8xf32>, tensor<8x6xf32>, tensor<?x1xi32>, tensor<?x3x16x2xf32>, tensor<?x3x16x2xf32>)
  func.func @model(%ids: tensor<?x8xi32>, %targets: tensor<?x8xi32>, %keys: tensor<?x2xi32>) -> tensor<?x8xf32> {
    %e = nn.get_parameter @e : tensor<16x8xf32>
    %g = nn.get_parameter @g : tensor<8xf32>
    %w = nn.get_parameter @w : tensor<24x8xf32>
    %o = nn.get_parameter @o : tensor<8x8xf32>
    %0 = call @embed(%ids, %e) : (tensor<?x8xi32>, tensor<16x8xf32>) -> tensor<?x8x8xf32>
    %1 = call @block(%0, %g, %w, %o) : (tensor<?x8x8xf32>, tensor<8xf32>, tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<?x8x8xf32>
    %2 = call @head(%1, %e) : (tensor<?x8x8xf32>, tensor<16x8xf32>) -> tensor<?x8x16xf32>
    %3 = call @loss(%2, %targets) : (tensor<?x8x16xf32>, tensor<?x8xi32>) -> tensor<?x8xf32>
    return %3 : tensor<?x8xf32>
  }
}

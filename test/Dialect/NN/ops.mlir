// RUN: poplar-opt %s | poplar-opt | FileCheck %s

// CHECK: nn.parameter @wte.weight : tensor<16x8xf32> {{ *}}normal std 2.000000e-02 decay
// CHECK: nn.parameter @ln.weight : tensor<8xf32> {{ *}}ones
// CHECK: nn.parameter @ln.bias : tensor<8xf32> {{ *}}zeros
nn.parameter @"wte.weight" : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @"ln.weight" : tensor<8xf32> ones
nn.parameter @"ln.bias" : tensor<8xf32> zeros
// CHECK: nn.parameter @lora : tensor<8xf32> {{ *}}uniform std 1.000000e-01 frozen
nn.parameter @lora : tensor<8xf32> uniform std 0.1 frozen

// CHECK-LABEL: func @parameters
func.func @parameters() {
  // CHECK: nn.get_parameter @wte.weight : tensor<16x8xf32>
  %0 = nn.get_parameter @wte.weight : tensor<16x8xf32>
  // A working copy.
  // CHECK: nn.get_parameter @wte.weight : tensor<16x8xbf16>
  %1 = nn.get_parameter @wte.weight : tensor<16x8xbf16>
  // CHECK: nn.get_gradient @wte.weight : tensor<16x8xf32>
  %2 = nn.get_gradient @wte.weight : tensor<16x8xf32>
  // CHECK: nn.set_gradient @wte.weight, %{{.*}} : tensor<16x8xf32>
  nn.set_gradient @wte.weight, %2 : tensor<16x8xf32>
  return
}

// CHECK-LABEL: func @forward
func.func @forward(%x: tensor<?x4x8xf32>,
    %y: tensor<?x4x8xf32>,
    %h: tensor<?x4x4xf32>,
    %w32: tensor<?x4x16xf32>,
    %qkv: tensor<?x4x16xf32>,
    %logits: tensor<?x4x16xf32>,
    %pt: tensor<?x4xf32>,
    %pt2: tensor<?x4xf32>,
    %lse: tensor<?x2x4xf32>,
    %ids: tensor<?x4xi32>,
    %keys: tensor<?x2xi32>,
    %w: tensor<16x8xf32>,
    %wt: tensor<8x16xf32>,
    %g: tensor<8xf32>,
    %b: tensor<8xf32>,
    %bias: tensor<16xf32>) {
  // CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %r0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.embedding %{{.*}}, %{{.*}} padding_idx 3 : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %r0p = nn.embedding %ids, %w padding_idx 3 : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.position_embedding %{{.*}}, %{{.*}} : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %r1 = nn.position_embedding %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.position_embedding %{{.*}}, %{{.*}} constant_row : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %r2 = nn.position_embedding %x, %w constant_row : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %r3 = nn.linear %x, %w bias %bias : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  // CHECK: nn.linear %{{.*}}, %{{.*}} layout {{ *}}in_out : (tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<?x4x16xf32>
  %r4 = nn.linear %x, %wt layout in_out : (tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<?x4x16xf32>
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} eps 1.000000e-05 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  %r5:3 = nn.layer_norm %x, %g, %b eps 1.000000e-05 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  // CHECK: nn.layer_norm %{{.*}}, %{{.*}} eps 1.000000e-05 offset 1.000000e+00 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  %r5b:3 = nn.layer_norm %x, %g eps 1.000000e-05 offset 1.000000e+00 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  // CHECK: nn.rms_norm %{{.*}}, %{{.*}} eps 1.000000e-05 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  %r6:2 = nn.rms_norm %x, %g eps 1.000000e-05 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  // CHECK: nn.rope %{{.*}} head_dim 4 inv_freq [1.000000e+00, 1.000000e-02] : tensor<?x4x8xf32>
  %r7 = nn.rope %x head_dim 4 inv_freq [1.000000e+00, 1.000000e-02] : tensor<?x4x8xf32>
  // CHECK: nn.rope %{{.*}} inverse head_dim 4 inv_freq [1.000000e+00, 1.000000e-02] scale 2.000000e+00 : tensor<?x4x8xf32>
  %r8 = nn.rope %x inverse head_dim 4 inv_freq [1.000000e+00, 1.000000e-02] scale 2.000000e+00 : tensor<?x4x8xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} causal heads 2 kv_heads 1 scale 5.000000e-01 window 3 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %r9:2 = nn.attention %x, %h, %h causal heads 2 kv_heads 1 scale 5.000000e-01 window 3 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // CHECK: nn.attention %{{.*}} keys %{{.*}} heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x16xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %r10:2 = nn.attention %qkv keys %keys heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x16xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // CHECK: nn.gelu %{{.*}} form {{ *}}erf : tensor<?x4x8xf32>
  %r11 = nn.gelu %x form erf : tensor<?x4x8xf32>
  // CHECK: nn.gelu %{{.*}} form {{ *}}tanh : tensor<?x4x8xf32>
  %r12 = nn.gelu %x form tanh : tensor<?x4x8xf32>
  // CHECK: nn.silu %{{.*}} : tensor<?x4x8xf32>
  %r13 = nn.silu %x : tensor<?x4x8xf32>
  // CHECK: nn.relu %{{.*}} : tensor<?x4x8xf32>
  %r14 = nn.relu %x : tensor<?x4x8xf32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<?x4x8xf32>
  %r15 = nn.add %x, %y : tensor<?x4x8xf32>
  // CHECK: nn.scale %{{.*}} factor 5.000000e-01 : tensor<?x4x8xf32>
  %r15b = nn.scale %x factor 0.5 : tensor<?x4x8xf32>
  // CHECK: nn.mul %{{.*}}, %{{.*}} : tensor<?x4x8xf32>
  %r16 = nn.mul %x, %y : tensor<?x4x8xf32>
  // CHECK: nn.cast %{{.*}} : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  %r17 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  // CHECK: nn.fold_key %{{.*}}, 7 : tensor<?x2xi32>
  %r18 = nn.fold_key %keys, 7 : tensor<?x2xi32>
  // CHECK: nn.dropout %{{.*}} keys %{{.*}} p 1.000000e-01 op_id 3 : tensor<?x4x8xf32>, tensor<?x2xi32>
  %r19 = nn.dropout %x keys %keys p 1.000000e-01 op_id 3 : tensor<?x4x8xf32>, tensor<?x2xi32>
  // CHECK: nn.noise %{{.*}} keys %{{.*}} magnitude 2.500000e-01 op_id 3 tokens [2, 8] : tensor<?x4x8xf32>, tensor<?x2xi32>
  %noise = nn.noise %x keys %keys magnitude 0.25 op_id 3 tokens [2, 8] : tensor<?x4x8xf32>, tensor<?x2xi32>
  // CHECK: nn.cross_entropy %{{.*}}, %{{.*}} : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %r20:2 = nn.cross_entropy %logits, %ids : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// CHECK-LABEL: func @gradients
func.func @gradients(%x: tensor<?x4x8xf32>,
    %y: tensor<?x4x8xf32>,
    %h: tensor<?x4x4xf32>,
    %w32: tensor<?x4x16xf32>,
    %qkv: tensor<?x4x16xf32>,
    %logits: tensor<?x4x16xf32>,
    %pt: tensor<?x4xf32>,
    %pt2: tensor<?x4xf32>,
    %lse: tensor<?x2x4xf32>,
    %ids: tensor<?x4xi32>,
    %keys: tensor<?x2xi32>,
    %w: tensor<16x8xf32>,
    %wt: tensor<8x16xf32>,
    %g: tensor<8xf32>,
    %b: tensor<8xf32>,
    %bias: tensor<16xf32>) {
  // CHECK: nn.embedding_grad %{{.*}}, %{{.*}} into %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %r0 = nn.embedding_grad %x, %ids into %w : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK: nn.embedding_grad %{{.*}}, %{{.*}} into %{{.*}} padding_idx 3 : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %r0p = nn.embedding_grad %x, %ids into %w padding_idx 3 : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK: nn.position_embedding_grad %{{.*}} into %{{.*}} constant_row : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %r1 = nn.position_embedding_grad %x into %w constant_row : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK: nn.linear_grad_weight %{{.*}}, %{{.*}} into %{{.*}} : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %r2 = nn.linear_grad_weight %logits, %x into %w : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK: nn.linear_grad_weight %{{.*}}, %{{.*}} into %{{.*}} layout {{ *}}in_out : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %r3 = nn.linear_grad_weight %logits, %x into %wt layout in_out : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: nn.linear_grad_weight_bias %{{.*}}, %{{.*}} into %{{.*}} bias %{{.*}} layout {{ *}}in_out : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  %r3b:2 = nn.linear_grad_weight_bias %logits, %x into %wt bias %bias layout in_out : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  // CHECK: nn.sum_rows %{{.*}} into %{{.*}} : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r4 = nn.sum_rows %x into %g : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: nn.norm_grad_gamma %{{.*}}, %{{.*}} rstd %{{.*}} mean %{{.*}} into %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r5 = nn.norm_grad_gamma %x, %y rstd %pt mean %pt2 into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: nn.norm_grad_gamma %{{.*}}, %{{.*}} rstd %{{.*}} into %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  %r5p = nn.norm_grad_gamma %x, %y rstd %pt into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: nn.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}} mean %{{.*}} rstd %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  %r6 = nn.layer_norm_grad %x, %y, %g mean %pt rstd %pt2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}} mean %{{.*}} rstd %{{.*}} offset 1.000000e+00 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  %r6b = nn.layer_norm_grad %x, %y, %g mean %pt rstd %pt2 offset 1.000000e+00 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}} rstd %{{.*}} : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  %r7 = nn.rms_norm_grad %x, %y, %g rstd %pt : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  // CHECK: nn.attention_grad %{{.*}} out %{{.*}} lse %{{.*}} qkv %{{.*}}, %{{.*}}, %{{.*}} causal heads 2 kv_heads 1 scale 5.000000e-01 window 3 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>)
  %dq, %dk, %dv = nn.attention_grad %x out %y lse %lse qkv %x, %h, %h causal heads 2 kv_heads 1 scale 5.000000e-01 window 3 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>)
  // CHECK: nn.attention_grad %{{.*}} out %{{.*}} lse %{{.*}} qkv %{{.*}}, %{{.*}}, %{{.*}} keys %{{.*}} heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>)
  %r8:3 = nn.attention_grad %x out %y lse %lse qkv %x, %h, %h keys %keys heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>)
  // CHECK: nn.attention_grad %{{.*}} out %{{.*}} lse %{{.*}} qkv %{{.*}} keys %{{.*}} heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x16xf32>, tensor<?x2xi32>) -> tensor<?x4x16xf32>
  %r9 = nn.attention_grad %x out %y lse %lse qkv %qkv keys %keys heads 2 kv_heads 1 scale 5.000000e-01 dropout 1.000000e-01 op_id 2 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x16xf32>, tensor<?x2xi32>) -> tensor<?x4x16xf32>
  // CHECK: nn.gelu_grad %{{.*}}, %{{.*}} form {{ *}}tanh : tensor<?x4x8xf32>
  %r10 = nn.gelu_grad %x, %y form tanh : tensor<?x4x8xf32>
  // CHECK: nn.silu_grad %{{.*}}, %{{.*}} : tensor<?x4x8xf32>
  %r11 = nn.silu_grad %x, %y : tensor<?x4x8xf32>
  // CHECK: nn.relu_grad %{{.*}}, %{{.*}} : tensor<?x4x8xf32>
  %r12 = nn.relu_grad %x, %y : tensor<?x4x8xf32>
  // CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}} lse %{{.*}} dloss %{{.*}} : (tensor<?x4x16xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x16xf32>
  %r13 = nn.cross_entropy_grad %logits, %ids lse %pt dloss %pt2 : (tensor<?x4x16xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x16xf32>
  return
}

// CHECK-LABEL: func @optimizer
func.func @optimizer(%p: tensor<6xf32>, %hyper: tensor<8xf32>) {
  // CHECK: nn.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} hyper %{{.*}} : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  %0:3 = nn.adamw %p, %p, %p, %p hyper %hyper : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<8xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// Documents that share samples.
// CHECK-LABEL: func @positions
func.func @positions(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %qkv: tensor<?x4x16xf32>, %y: tensor<?x4x8xf32>, %lse: tensor<?x2x4xf32>, %p: tensor<?x4xi32>) {
  // CHECK: nn.position_embedding %{{.*}}, %{{.*}} at %{{.*}} : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<?x4xi32>) -> tensor<?x4x8xf32>
  %0 = nn.position_embedding %x, %w at %p : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<?x4xi32>) -> tensor<?x4x8xf32>
  // CHECK: nn.rope %{{.*}} at %{{.*}} length 4 inverse head_dim 4 inv_freq [1.000000e+00] : tensor<?x4x8xf32>, tensor<?x4xi32>
  %1 = nn.rope %x at %p length 4 inverse head_dim 4 inv_freq [1.0] : tensor<?x4x8xf32>, tensor<?x4xi32>
  // CHECK: nn.attention %{{.*}} positions %{{.*}} causal heads 2 kv_heads 1 scale 5.000000e-01 : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %2:2 = nn.attention %qkv positions %p causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // CHECK: nn.attention_grad %{{.*}} out %{{.*}} lse %{{.*}} qkv %{{.*}} positions %{{.*}} causal heads 2 kv_heads 1 scale 5.000000e-01 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4x16xf32>
  %3 = nn.attention_grad %x out %y lse %lse qkv %qkv positions %p causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4x16xf32>
  return
}

// CHECK: nn.parameter @q : tensor<8x8x!nn.quantized<nf4_double>> {{ *}}normal frozen
nn.parameter @q : tensor<8x8x!nn.quantized<nf4_double>> normal frozen
// CHECK-LABEL: func @quantized
func.func @quantized(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %w = nn.get_parameter @q : tensor<8x8x!nn.quantized<nf4_double>>
  // CHECK: nn.linear %{{.*}}, %{{.*}} layout in_out : (tensor<?x4x8xbf16>, tensor<8x8x!nn.quantized<nf4_double>>) -> tensor<?x4x8xbf16>
  %0 = nn.linear %x, %w layout in_out : (tensor<?x4x8xbf16>, tensor<8x8x!nn.quantized<nf4_double>>) -> tensor<?x4x8xbf16>
  return %0 : tensor<?x4x8xbf16>
}

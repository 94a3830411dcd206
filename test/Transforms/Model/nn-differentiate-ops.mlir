// RUN: poplar-opt %s --nn-differentiate | FileCheck %s

// Ops that the GPT-2 of nn-differentiate.mlir has not, and values used twice.

nn.parameter @wte : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @token_type : tensor<2x8xf32> normal std 2.0e-02 decay
nn.parameter @norm : tensor<8xf32> ones
nn.parameter @wq : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @wk : tensor<4x8xf32> normal std 2.0e-02 decay
nn.parameter @wv : tensor<4x8xf32> normal std 2.0e-02 decay
nn.parameter @gate : tensor<8xf32> ones

// CHECK-LABEL: func.func private @embed.backward(
// CHECK:         nn.position_embedding_grad %{{.*}} into %{{.*}} constant_row
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}, %tt: tensor<2x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.position_embedding %0, %tt constant_row : (tensor<?x4x8xf32>, tensor<2x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// Grouped-query attention of Llama; q's and k's rotations need no residual.
// CHECK-LABEL: func.func private @attention.forward(
// CHECK:         %[[Y:.*]], %[[RSTD:.*]] = nn.rms_norm
// CHECK:         %[[Q:.*]] = nn.rope
// CHECK:         %[[K:.*]] = nn.rope
// CHECK:         %[[V:.*]] = nn.linear
// CHECK:         %[[A:.*]], %[[LSE:.*]] = nn.attention
// CHECK:         return %[[A]], %[[Y]], %[[RSTD]], %[[Q]], %[[K]], %[[V]], %[[LSE]] :
// CHECK-LABEL: func.func private @attention.backward(
// CHECK:         %[[DQ:.*]], %[[DK:.*]], %[[DV:.*]] = nn.attention_grad
// CHECK:         %[[DY1:.*]] = nn.linear %[[DV]]
// CHECK:         nn.linear_grad_weight %[[DV]]
// CHECK:         %[[RK:.*]] = nn.rope %[[DK]] inverse head_dim 4
// CHECK:         %[[DY2:.*]] = nn.linear %[[RK]]
// CHECK:         %[[DY12:.*]] = nn.add %[[DY1]], %[[DY2]]
// CHECK:         %[[RQ:.*]] = nn.rope %[[DQ]] inverse head_dim 4
// CHECK:         %[[DY3:.*]] = nn.linear %[[RQ]]
// CHECK:         %[[DY:.*]] = nn.add %[[DY12]], %[[DY3]]
// CHECK:         %[[DX:.*]] = nn.rms_norm_grad %[[DY]]
// CHECK:         %[[DN:.*]] = nn.norm_grad_gamma %[[DY]], %{{.*}} rstd %{{.*}} into
// CHECK:         return %[[DX]], %[[DN]],
func.func private @attention(%x: tensor<?x4x8xf32>, %n: tensor<8xf32> {nn.parameter}, %wq: tensor<8x8xf32> {nn.parameter},
    %wk: tensor<4x8xf32> {nn.parameter}, %wv: tensor<4x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0:2 = nn.rms_norm %x, %n eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  %1 = nn.linear %0#0, %wq : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %q = nn.rope %1 head_dim 4 inv_freq [1.0, 0.01] : tensor<?x4x8xf32>
  %2 = nn.linear %0#0, %wk : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x4xf32>
  %k = nn.rope %2 head_dim 4 inv_freq [1.0, 0.01] : tensor<?x4x4xf32>
  %v = nn.linear %0#0, %wv : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x4xf32>
  %3:2 = nn.attention %q, %k, %v causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return %3#0 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func private @swiglu.backward(
// CHECK-SAME:    %[[SILU:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[X:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[U:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[DY:[a-z0-9]+]]: tensor<?x4x8xf32>)
// CHECK:         %[[DS:.*]] = nn.mul %[[DY]], %[[U]]
// CHECK:         %[[DU:.*]] = nn.mul %[[DY]], %[[SILU]]
// CHECK:         %[[DX:.*]] = nn.silu_grad %[[DS]], %[[X]]
// CHECK:         return %[[DX]], %[[DU]]
func.func private @swiglu(%x: tensor<?x4x8xf32>, %u: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.silu %x : tensor<?x4x8xf32>
  %1 = nn.mul %0, %u : tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// x + x, x * x; relu's gradient reads the result, which is a result of the
// unit and so returned once.
// CHECK-LABEL: func.func private @twice.forward(
// CHECK-SAME:    -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes
// CHECK-LABEL: func.func private @twice.backward(
// CHECK-SAME:    %[[Y:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[R:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[DR:[a-z0-9]+]]: tensor<?x4x8xf32>)
// CHECK:         %[[D0:.*]] = nn.relu_grad %[[DR]], %[[R]]
// CHECK:         %[[D1:.*]] = nn.mul %[[D0]], %[[Y]]
// CHECK:         %[[D2:.*]] = nn.mul %[[D0]], %[[Y]]
// CHECK:         %[[D3:.*]] = nn.add %[[D1]], %[[D2]]
// CHECK:         %[[D4:.*]] = nn.add %[[D3]], %[[D3]]
// CHECK:         return %[[D4]]
func.func private @twice(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.add %x, %x : tensor<?x4x8xf32>
  %1 = nn.mul %0, %0 : tensor<?x4x8xf32>
  %2 = nn.relu %1 : tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

// A parameter used twice: one chain. Its bf16 copy has the running gradient of
// the f32 parameter and is made again rather than kept.
// CHECK-LABEL: func.func private @mixed.forward(
// CHECK-LABEL: func.func private @mixed.backward(
// CHECK-SAME:    %[[W:[a-z0-9]+]]: tensor<8x8xf32> {nn.parameter}, %[[DY:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[A:[a-z0-9]+]]: tensor<8x8xf32> {nn.gradient})
// CHECK:         %[[WB:.*]] = nn.cast %[[W]]
// CHECK:         %[[DYB:.*]] = nn.cast %[[DY]] : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
// CHECK:         %[[D0:.*]] = nn.linear %[[DYB]], %[[WB]] layout in_out
// CHECK:         %[[A0:.*]] = nn.linear_grad_weight %[[DYB]], %{{.*}} into %[[A]] :
// CHECK:         %[[D1:.*]] = nn.gelu_grad %[[D0]], %{{.*}} form tanh
// CHECK:         %[[A1:.*]] = nn.linear_grad_weight %[[D1]], %{{.*}} into %[[A0]] :
// CHECK:         return %{{.*}}, %[[A1]]
func.func private @mixed(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %wb = nn.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  %0 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  %1 = nn.linear %0, %wb : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  %2 = nn.gelu %1 form tanh : tensor<?x4x8xbf16>
  %3 = nn.linear %2, %wb : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  %4 = nn.cast %3 : tensor<?x4x8xbf16> to tensor<?x4x8xf32>
  return %4 : tensor<?x4x8xf32>
}

// Parameters that meet in an op which cannot add into their gradients.
// CHECK-LABEL: func.func private @gated.backward(
// CHECK-SAME:    %[[AN:[a-z0-9]+]]: tensor<8xf32> {nn.gradient}, %[[AG:[a-z0-9]+]]: tensor<8xf32> {nn.gradient})
// CHECK:         %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<8xf32>
// CHECK:         %[[D:.*]] = nn.norm_grad_gamma %{{.*}} into %[[ZERO]]
// CHECK:         %[[DN:.*]] = nn.mul %[[D]], %{{.*}} : tensor<8xf32>
// CHECK:         %[[GN:.*]] = nn.add %[[AN]], %[[DN]]
// CHECK:         %[[DG:.*]] = nn.mul %[[D]], %{{.*}} : tensor<8xf32>
// CHECK:         %[[GG:.*]] = nn.add %[[AG]], %[[DG]]
// CHECK:         return %{{.*}}, %[[GN]], %[[GG]]
func.func private @gated(%x: tensor<?x4x8xf32>, %n: tensor<8xf32> {nn.parameter}, %g: tensor<8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.mul %n, %g : tensor<8xf32>
  %1:2 = nn.rms_norm %x, %0 eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  return %1#0 : tensor<?x4x8xf32>
}

func.func private @loss(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}

func.func private @unused(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  return %x : tensor<?x4x8xf32>
}

// CHECK-NOT:   @unused
// The result of @attention goes to two units: its cotangents are summed. The
// gradient of @norm passes through both units that use it.
// CHECK-LABEL: func.func @train(
// CHECK:         %[[N:.*]] = nn.get_gradient @norm
// CHECK:         %[[G:.*]]:3 = call @gated.backward({{.*}}, %[[N]], %
// CHECK:         %[[S:.*]]:2 = call @swiglu.backward
// CHECK:         %[[T:.*]] = call @twice.backward({{.*}}, %[[S]]#1)
// CHECK:         %[[SUM:.*]] = nn.add %[[S]]#0, %[[T]]
// CHECK:         %[[A:.*]]:5 = call @attention.backward({{.*}}, %[[SUM]], %[[G]]#1,
// CHECK:         nn.set_gradient @norm, %[[A]]#1
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xf32>
  %tt = nn.get_parameter @token_type : tensor<2x8xf32>
  %n = nn.get_parameter @norm : tensor<8xf32>
  %wq = nn.get_parameter @wq : tensor<8x8xf32>
  %wk = nn.get_parameter @wk : tensor<4x8xf32>
  %wv = nn.get_parameter @wv : tensor<4x8xf32>
  %g = nn.get_parameter @gate : tensor<8xf32>
  %x0 = func.call @embed(%ids, %wte, %tt) : (tensor<?x4xi32>, tensor<16x8xf32>, tensor<2x8xf32>) -> tensor<?x4x8xf32>
  %x1 = func.call @attention(%x0, %n, %wq, %wk, %wv) : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %x2 = func.call @twice(%x1) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %x3 = func.call @swiglu(%x1, %x2) : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %x4 = func.call @mixed(%x3, %wq) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %x5 = func.call @gated(%x4, %n, %g) : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %loss = func.call @loss(%x5, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

// RUN: poplar-opt %s --nn-differentiate | FileCheck %s
// RUN: poplar-opt %s --nn-differentiate=recompute=recompute-attention | FileCheck %s --check-prefix=ATTENTION
// RUN: poplar-opt %s --nn-differentiate=recompute=recompute-unit | FileCheck %s --check-prefix=UNIT
// RUN: poplar-opt %s --nn-differentiate=recompute=recompute-unit:1 | FileCheck %s --check-prefix=PART
// RUN: not poplar-opt %s --nn-differentiate=recompute=recompute-unit:3 2>&1 | FileCheck %s --check-prefix=MANY
// MANY: error: recompute-unit:3 is for 3 layers, but the model has 2

// The first block recomputes, the second keeps everything.
// PART-LABEL: func.func @train(
// PART:         %[[X0:[0-9]+]] = call @embed.forward(
// PART:         %[[X1:[0-9]+]] = call @block.recompute.forward(%[[X0]], %[[K:[0-9]+]], %
// PART:         %[[B1:[0-9]+]]:7 = call @block.forward(%[[X1]]
// PART:         call @head.forward(%[[B1]]#0
// PART:         call @block.backward(%[[B1]]#1, %[[B1]]#2,
// PART:         call @block.recompute.backward(%[[X0]], %[[K]], %

// A GPT-2: tied embedding, biases, packed attention, dropout, one block called
// twice.

nn.parameter @wte : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @wpe : tensor<4x8xf32> normal std 2.0e-02 decay
nn.parameter @"h.0.ln.g" : tensor<8xf32> ones
nn.parameter @"h.0.ln.b" : tensor<8xf32> zeros
nn.parameter @"h.0.attn.w" : tensor<8x24xf32> normal std 2.0e-02 decay
nn.parameter @"h.0.attn.b" : tensor<24xf32> zeros
nn.parameter @"h.1.ln.g" : tensor<8xf32> ones
nn.parameter @"h.1.ln.b" : tensor<8xf32> zeros
nn.parameter @"h.1.attn.w" : tensor<8x24xf32> normal std 2.0e-02 decay
nn.parameter @"h.1.attn.b" : tensor<24xf32> zeros

// The embedding has no activation to differentiate: it returns gradients only.
// CHECK-LABEL: func.func private @embed.backward(
// CHECK-SAME:    %[[IDS:[a-z0-9]+]]: tensor<?x4xi32>, %[[KEYS:[a-z0-9]+]]: tensor<?x2xi32>, %[[DY:[a-z0-9]+]]: tensor<?x4x8xf32>,
// CHECK-SAME:    %[[DWTE:[a-z0-9]+]]: tensor<16x8xf32> {nn.gradient}, %[[DWPE:[a-z0-9]+]]: tensor<4x8xf32> {nn.gradient})
// CHECK-SAME:    -> (tensor<16x8xf32>, tensor<4x8xf32>) attributes {nn.unit}
// CHECK:         %[[D:.*]] = nn.dropout %[[DY]] keys %[[KEYS]]
// CHECK:         %[[GWPE:.*]] = nn.position_embedding_grad %[[D]] into %[[DWPE]]
// CHECK:         %[[GWTE:.*]] = nn.embedding_grad %[[D]], %[[IDS]] into %[[DWTE]]
// CHECK:         return %[[GWTE]], %[[GWPE]]
func.func private @embed(%ids: tensor<?x4xi32>, %keys: tensor<?x2xi32>,
    %wte: tensor<16x8xf32> {nn.parameter}, %wpe: tensor<4x8xf32> {nn.parameter})
    -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %wte : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.position_embedding %0, %wpe : (tensor<?x4x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %2 = nn.dropout %1 keys %keys p 0.1 op_id 0 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %2 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func.func private @block.inference(
// CHECK-SAME:    %{{[a-z0-9]+}}: tensor<?x4x8xf32>, %{{[a-z0-9]+}}: tensor<8xf32> {nn.parameter},
// CHECK-NOT:     keys
// CHECK:         return

// Keeping everything, the residuals are the normalised rows, their statistics,
// the packed qkv, the attention and its log-sum-exps.
// CHECK-LABEL: func.func private @block.forward(
// CHECK:         %[[LN:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = nn.layer_norm
// CHECK:         %[[QKV:.*]] = nn.linear %[[LN]]
// CHECK:         %[[ATT:.*]], %[[LSE:.*]] = nn.attention %[[QKV]]
// CHECK:         %[[DROP:.*]] = nn.dropout %[[ATT]]
// CHECK:         %[[OUT:.*]] = nn.add
// CHECK:         return %[[OUT]], %[[LN]], %[[MEAN]], %[[RSTD]], %[[QKV]], %[[ATT]], %[[LSE]] :

// CHECK-LABEL: func.func private @block.backward(
// CHECK-SAME:    %[[LN:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[MEAN:[a-z0-9]+]]: tensor<?x4xf32>, %[[RSTD:[a-z0-9]+]]: tensor<?x4xf32>,
// CHECK-SAME:    %[[QKV:[a-z0-9]+]]: tensor<?x4x24xf32>, %[[ATT:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[LSE:[a-z0-9]+]]: tensor<?x2x4xf32>,
// CHECK-SAME:    %[[X:[a-z0-9]+]]: tensor<?x4x8xf32>, %[[KEYS:[a-z0-9]+]]: tensor<?x2xi32>,
// CHECK-SAME:    %[[G:[a-z0-9]+]]: tensor<8xf32> {nn.parameter}, %[[W:[a-z0-9]+]]: tensor<8x24xf32> {nn.parameter},
// CHECK-SAME:    %[[DY:[a-z0-9]+]]: tensor<?x4x8xf32>,
// CHECK-SAME:    %[[AG:[a-z0-9]+]]: tensor<8xf32> {nn.gradient}, %[[AB:[a-z0-9]+]]: tensor<8xf32> {nn.gradient},
// CHECK-SAME:    %[[AW:[a-z0-9]+]]: tensor<8x24xf32> {nn.gradient}, %[[ABIAS:[a-z0-9]+]]: tensor<24xf32> {nn.gradient})
// CHECK:         %[[D:.*]] = nn.dropout %[[DY]] keys %[[KEYS]] p 1.000000e-01 op_id 2
// CHECK:         %[[DQKV:.*]] = nn.attention_grad %[[D]] out %[[ATT]] lse %[[LSE]] qkv %[[QKV]] keys %[[KEYS]] causal heads 2 kv_heads 2 scale 5.000000e-01 dropout 1.000000e-01 op_id 1
// CHECK:         %[[DLN:.*]] = nn.linear %[[DQKV]], %[[W]] :
// CHECK:         %[[GW:.*]] = nn.linear_grad_weight %[[DQKV]], %[[LN]] into %[[AW]] layout in_out
// CHECK:         %[[GBIAS:.*]] = nn.sum_rows %[[DQKV]] into %[[ABIAS]]
// CHECK:         %[[DX:.*]] = nn.layer_norm_grad %[[DLN]], %[[X]], %[[G]] mean %[[MEAN]] rstd %[[RSTD]]
// CHECK:         %[[DXX:.*]] = nn.add %[[DY]], %[[DX]]
// CHECK:         %[[GG:.*]] = nn.norm_grad_gamma %[[DLN]], %[[X]] rstd %[[RSTD]] mean %[[MEAN]] into %[[AG]]
// CHECK:         %[[GB:.*]] = nn.sum_rows %[[DLN]] into %[[AB]]
// CHECK:         return %[[DXX]], %[[GG]], %[[GB]], %[[GW]], %[[GBIAS]]

// Attention and its log-sum-exps are made again from the packed qkv.
// ATTENTION-LABEL: func.func private @block.forward(
// ATTENTION:         %[[LN:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = nn.layer_norm
// ATTENTION:         %[[QKV:.*]] = nn.linear %[[LN]]
// ATTENTION:         %[[OUT:.*]] = nn.add
// ATTENTION:         return %[[OUT]], %[[LN]], %[[MEAN]], %[[RSTD]], %[[QKV]] :
// ATTENTION-LABEL: func.func private @block.backward(
// ATTENTION-NOT:     nn.linear
// ATTENTION:         %[[ATT:.*]], %[[LSE:.*]] = nn.attention %[[QKV:.*]] keys
// ATTENTION:         nn.attention_grad %{{.*}} out %[[ATT]] lse %[[LSE]] qkv %[[QKV]]

// UNIT-LABEL: func.func private @block.forward(
// UNIT-SAME:    -> tensor<?x4x8xf32> attributes {nn.unit}
// UNIT-LABEL: func.func private @block.backward(
// UNIT:         nn.layer_norm
// UNIT:         nn.linear
// UNIT:         nn.attention %
// The last dropout and the residual sum are not needed again.
// UNIT-NOT:     nn.add
// UNIT:         nn.dropout
// UNIT:         nn.attention_grad
func.func private @block(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>,
    %g: tensor<8xf32> {nn.parameter}, %b: tensor<8xf32> {nn.parameter},
    %w: tensor<8x24xf32> {nn.parameter}, %bias: tensor<24xf32> {nn.parameter})
    -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0:3 = nn.layer_norm %x, %g, %b eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  %1 = nn.linear %0#0, %w bias %bias layout in_out : (tensor<?x4x8xf32>, tensor<8x24xf32>, tensor<24xf32>) -> tensor<?x4x24xf32>
  %2:2 = nn.attention %1 keys %keys causal heads 2 kv_heads 2 scale 0.5 dropout 0.1 op_id 1 : (tensor<?x4x24xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %3 = nn.dropout %2#0 keys %keys p 0.1 op_id 2 : tensor<?x4x8xf32>, tensor<?x2xi32>
  %4 = nn.add %x, %3 : tensor<?x4x8xf32>
  return %4 : tensor<?x4x8xf32>
}

func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32> {nn.parameter})
    -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}

// CHECK-LABEL: func.func private @loss.forward(
// CHECK:         %[[LOSS:.*]], %[[LSE:.*]] = nn.cross_entropy
// CHECK:         return %[[LOSS]], %[[LSE]]
// CHECK-LABEL: func.func private @loss.backward(
// CHECK-SAME:    %[[LSE:[a-z0-9]+]]: tensor<?x4xf32>, %[[LOGITS:[a-z0-9]+]]: tensor<?x4x16xf32>, %[[TARGETS:[a-z0-9]+]]: tensor<?x4xi32>, %[[DLOSS:[a-z0-9]+]]: tensor<?x4xf32>
// CHECK:         %[[D:.*]] = nn.cross_entropy_grad %[[LOGITS]], %[[TARGETS]] lse %[[LSE]] dloss %[[DLOSS]]
// CHECK:         return %[[D]]
func.func private @loss(%logits: tensor<?x4x16xf32>, %targets: tensor<?x4xi32>)
    -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %logits, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}

// CHECK-NOT:   func.func @model
// CHECK-LABEL: func.func @evaluate(
// CHECK-SAME:    %[[IDS:[a-z0-9]+]]: tensor<?x4xi32>, %[[TARGETS:[a-z0-9]+]]: tensor<?x4xi32>) -> tensor<?x4xf32>
// CHECK-NOT:     nn.fold_key
// CHECK:         %[[X0:.*]] = call @embed.inference(%[[IDS]], %{{.*}}, %{{.*}})
// CHECK:         %[[X1:.*]] = call @block.inference(%[[X0]],
// CHECK:         %[[X2:.*]] = call @block.inference(%[[X1]],
// CHECK:         %[[LOGITS:.*]] = call @head(%[[X2]],
// CHECK:         %[[LOSS:.*]] = call @loss(%[[LOGITS]], %[[TARGETS]])
// CHECK:         return %[[LOSS]]

// CHECK-LABEL: func.func @infer(
// CHECK-SAME:    %[[IDS:[a-z0-9]+]]: tensor<?x4xi32>) -> tensor<?x4x16xf32>
// CHECK:         %[[LOGITS:.*]] = call @head(
// CHECK-NEXT:    return %[[LOGITS]]

// The gradient of the tied embedding is read once, handed from the head's
// backward to the embedding's, and written once.
// CHECK-LABEL: func.func @train(
// CHECK-SAME:    %[[IDS:[a-z0-9]+]]: tensor<?x4xi32>, %[[TARGETS:[a-z0-9]+]]: tensor<?x4xi32>, %[[KEYS:[a-z0-9]+]]: tensor<?x2xi32>, %[[DLOSS:[a-z0-9]+]]: tensor<?x4xf32>) -> tensor<?x4xf32>
// CHECK:         %[[WTE:.*]] = nn.get_parameter @wte
// CHECK-NOT:     nn.get_parameter @wte
// CHECK:         %[[K:.*]] = nn.fold_key %[[KEYS]], 0
// CHECK:         %[[X0:.*]] = call @embed.forward(%[[IDS]], %[[K]], %[[WTE]]
// CHECK:         %[[B0:.*]]:7 = call @block.forward(%[[X0]]
// CHECK:         %[[B1:.*]]:7 = call @block.forward(%[[B0]]#0
// CHECK:         %[[LOGITS:.*]] = call @head.forward(%[[B1]]#0, %[[WTE]])
// CHECK:         %[[LOSS:.*]]:2 = call @loss.forward(%[[LOGITS]], %[[TARGETS]])
// CHECK:         %[[DLOGITS:.*]] = call @loss.backward(%[[LOSS]]#1, %[[LOGITS]], %[[TARGETS]], %[[DLOSS]])
// CHECK:         %[[AWTE:.*]] = nn.get_gradient @wte
// CHECK:         %[[DHEAD:.*]]:2 = call @head.backward(%[[B1]]#0, %[[WTE]], %[[DLOGITS]], %[[AWTE]])
// CHECK:         %[[D1:.*]]:5 = call @block.backward(%[[B1]]#1, {{.*}}, %[[DHEAD]]#0,
// CHECK:         nn.set_gradient @h.1.ln.g, %[[D1]]#1
// CHECK:         %[[D0:.*]]:5 = call @block.backward(%[[B0]]#1, {{.*}}, %[[D1]]#0,
// CHECK:         %[[D:.*]]:2 = call @embed.backward(%[[IDS]], %[[K]], %[[D0]]#0, %[[DHEAD]]#1, %
// CHECK-DAG:     nn.set_gradient @wte, %[[D]]#0
// CHECK-DAG:     nn.set_gradient @wpe, %[[D]]#1
// CHECK:         return %[[LOSS]]#0
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte : tensor<16x8xf32>
  %wpe = nn.get_parameter @wpe : tensor<4x8xf32>
  %k0 = nn.fold_key %keys, 0 : tensor<?x2xi32>
  %x0 = func.call @embed(%ids, %k0, %wte, %wpe) : (tensor<?x4xi32>, tensor<?x2xi32>, tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %g0 = nn.get_parameter @"h.0.ln.g" : tensor<8xf32>
  %b0 = nn.get_parameter @"h.0.ln.b" : tensor<8xf32>
  %w0 = nn.get_parameter @"h.0.attn.w" : tensor<8x24xf32>
  %c0 = nn.get_parameter @"h.0.attn.b" : tensor<24xf32>
  %k1 = nn.fold_key %keys, 1 : tensor<?x2xi32>
  %x1 = func.call @block(%x0, %k1, %g0, %b0, %w0, %c0) : (tensor<?x4x8xf32>, tensor<?x2xi32>, tensor<8xf32>, tensor<8xf32>, tensor<8x24xf32>, tensor<24xf32>) -> tensor<?x4x8xf32>
  %g1 = nn.get_parameter @"h.1.ln.g" : tensor<8xf32>
  %b1 = nn.get_parameter @"h.1.ln.b" : tensor<8xf32>
  %w1 = nn.get_parameter @"h.1.attn.w" : tensor<8x24xf32>
  %c1 = nn.get_parameter @"h.1.attn.b" : tensor<24xf32>
  %k2 = nn.fold_key %keys, 2 : tensor<?x2xi32>
  %x2 = func.call @block(%x1, %k2, %g1, %b1, %w1, %c1) : (tensor<?x4x8xf32>, tensor<?x2xi32>, tensor<8xf32>, tensor<8xf32>, tensor<8x24xf32>, tensor<24xf32>) -> tensor<?x4x8xf32>
  %head = nn.get_parameter @wte : tensor<16x8xf32>
  %logits = func.call @head(%x2, %head) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}

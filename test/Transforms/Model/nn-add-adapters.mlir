// RUN: poplar-opt %s --nn-add-adapters="rank=2 alpha=4 dropout=0.1 targets=fc" | FileCheck %s
// RUN: poplar-opt %s --nn-add-adapters="rank=2 alpha=4 targets=all-linear" | FileCheck %s --check-prefix=LINEAR
// RUN: poplar-opt %s --nn-add-adapters="targets=fc,head" | FileCheck %s --check-prefix=HEAD
// RUN: poplar-opt %s --nn-add-adapters="targets=fc saved=wte,head" | FileCheck %s --check-prefix=SAVED

// All that there was is frozen; adapters follow, in the order of the calls.
// CHECK:      num_parameters = 464
// CHECK-DAG:  nn.parameter @wte.weight : tensor<16x8xf32> {{ *}}normal std 2.000000e-02 decay frozen
// CHECK-DAG:  nn.parameter @h.0.fc.weight : tensor<8x8xf32> {{ *}}normal std 2.000000e-02 decay frozen
// CHECK:      nn.parameter @h.0.fc.lora_A.weight : tensor<2x8xf32> {{ *}}uniform std 0.2041{{[0-9]*}} decay{{$}}
// CHECK-NEXT: nn.parameter @h.1.fc.lora_A.weight : tensor<2x8xf32>
// CHECK-NEXT: nn.parameter @h.0.fc.lora_B.weight : tensor<8x2xf32> {{ *}}zeros decay{{$}}
// CHECK-NEXT: nn.parameter @h.1.fc.lora_B.weight : tensor<8x2xf32>

// Both calls of the unit have adapters of their own, and keys for the dropout.
// CHECK-LABEL: func.func private @block(
// CHECK-SAME:    %[[KEYS:[^:]*]]: tensor<?x2xi32>, %[[A:[^:]*]]: tensor<2x8xf32> {nn.parameter}, %[[B:[^:]*]]: tensor<8x2xf32> {nn.parameter})
// CHECK:         %[[Y:.*]] = nn.linear %[[X:[^,]*]], %{{.*}} bias %{{.*}} layout in_out
// CHECK-NEXT:    %[[D:.*]] = nn.dropout %[[X]] keys %[[KEYS]] p 1.000000e-01 op_id 0
// CHECK-NEXT:    %[[R:.*]] = nn.linear %[[D]], %[[A]] : (tensor<?x4x8xf32>, tensor<2x8xf32>) -> tensor<?x4x2xf32>
// CHECK-NEXT:    %[[S:.*]] = nn.scale %[[R]] factor 2.000000e+00
// CHECK-NEXT:    %[[U:.*]] = nn.linear %[[S]], %[[B]] : (tensor<?x4x2xf32>, tensor<8x2xf32>) -> tensor<?x4x8xf32>
// CHECK-NEXT:    %[[SUM:.*]] = nn.add %[[Y]], %[[U]]
// CHECK-NEXT:    return %[[SUM]]
// CHECK-LABEL: func.func @model(
// CHECK:         %[[KEY:.*]] = nn.fold_key %{{.*}}, 1
// CHECK-NEXT:    %[[A0:.*]] = nn.get_parameter @h.0.fc.lora_A.weight
// CHECK-NEXT:    %[[B0:.*]] = nn.get_parameter @h.0.fc.lora_B.weight
// CHECK-NEXT:    call @block({{.*}}, %[[KEY]], %[[A0]], %[[B0]])

// What makes the logits is no target of all-linear. No dropout, no keys.
// LINEAR:      lora_targets = "fc"
// LINEAR-NOT:  head.lora_A
// LINEAR-NOT:  nn.dropout
// LINEAR-NOT:  nn.fold_key

// HEAD: lora_targets = "fc,head"
// HEAD: nn.parameter @head.lora_A.weight : tensor<8x8xf32>

// Modules to save are trained as a whole.
// SAVED-DAG: nn.parameter @wte.weight : tensor<16x8xf32> {{ *}}normal std 2.000000e-02 decay{{$}}
// SAVED-DAG: nn.parameter @head.weight : tensor<16x8xf32> {{ *}}normal std 2.000000e-02 decay{{$}}
// SAVED-DAG: nn.parameter @h.0.fc.bias : tensor<8xf32> {{ *}}zeros frozen
// SAVED-DAG: nn.parameter @h.0.fc.lora_A.weight

module attributes {nn.model = {num_parameters = 400 : i64, vocab_size = 16 : i64, hidden_size = 8 : i64, seq_len = 4 : i64}} {
nn.parameter @wte.weight : tensor<16x8xf32> normal std 2.0e-02 decay
nn.parameter @h.0.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @h.0.fc.bias : tensor<8xf32> zeros
nn.parameter @h.1.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @h.1.fc.bias : tensor<8xf32> zeros
nn.parameter @head.weight : tensor<16x8xf32> normal std 2.0e-02 decay
func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}, %b: tensor<8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w bias %b layout in_out : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %0 : tensor<?x4x16xf32>
}
func.func private @loss(%x: tensor<?x4x16xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
  %0:2 = nn.cross_entropy %x, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0 : tensor<?x4xf32>
}
func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
  %wte = nn.get_parameter @wte.weight : tensor<16x8xf32>
  %x = func.call @embed(%ids, %wte) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  %w0 = nn.get_parameter @h.0.fc.weight : tensor<8x8xf32>
  %b0 = nn.get_parameter @h.0.fc.bias : tensor<8xf32>
  %y = func.call @block(%x, %w0, %b0) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %w1 = nn.get_parameter @h.1.fc.weight : tensor<8x8xf32>
  %b1 = nn.get_parameter @h.1.fc.bias : tensor<8xf32>
  %z = func.call @block(%y, %w1, %b1) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %h = nn.get_parameter @head.weight : tensor<16x8xf32>
  %logits = func.call @head(%z, %h) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  return %loss : tensor<?x4xf32>
}
}

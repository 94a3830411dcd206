// RUN: poplar-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func @cast_to_itself
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @cast_to_itself(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func @widen_and_narrow
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4x8xbf16>
// CHECK-NEXT: return %[[X]]
func.func @widen_and_narrow(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %0 = nn.cast %x : tensor<?x4x8xbf16> to tensor<?x4x8xf32>
  %1 = nn.cast %0 : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  return %1 : tensor<?x4x8xbf16>
}

// Rounding is not undone.
// CHECK-LABEL: func @narrow_and_widen
// CHECK-COUNT-2: nn.cast
func.func @narrow_and_widen(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  %1 = nn.cast %0 : tensor<?x4x8xbf16> to tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// f16 does not hold all of bf16.
// CHECK-LABEL: func @through_f16
// CHECK-COUNT-2: nn.cast
func.func @through_f16(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %0 = nn.cast %x : tensor<?x4x8xbf16> to tensor<?x4x8xf16>
  %1 = nn.cast %0 : tensor<?x4x8xf16> to tensor<?x4x8xbf16>
  return %1 : tensor<?x4x8xbf16>
}

// CHECK-LABEL: func @no_dropout
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @no_dropout(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %0 = nn.dropout %x keys %keys p 0.0 op_id 1 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %0 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func @dropout
// CHECK: nn.dropout
func.func @dropout(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %0 = nn.dropout %x keys %keys p 0.1 op_id 1 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %0 : tensor<?x4x8xf32>
}

// CHECK-LABEL: func @no_noise
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4x8xf32>
// CHECK-NEXT: return %[[X]]
func.func @no_noise(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %0 = nn.noise %x keys %keys magnitude 0.0 op_id 1 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %0 : tensor<?x4x8xf32>
}

// Without dropout there is nothing to draw, and no key to fold.
// CHECK-LABEL: func @attention_without_dropout
// CHECK-NOT: nn.fold_key
// CHECK: nn.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} heads 2
// CHECK: nn.attention_grad {{.*}} qkv %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} heads 2
func.func @attention_without_dropout(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %key = nn.fold_key %keys, 1 : tensor<?x2xi32>
  %y, %lse = nn.attention %x, %x, %x keys %key heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  %dq, %dk, %dv = nn.attention_grad %y out %y lse %lse qkv %x, %x, %x keys %key heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>)
  return %y, %dq : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// CHECK-LABEL: func @attention_with_dropout
// CHECK: nn.attention {{.*}} keys
func.func @attention_with_dropout(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %y, %lse = nn.attention %x, %x, %x keys %keys heads 2 kv_heads 2 scale 0.5 dropout 0.1 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return %y : tensor<?x4x8xf32>
}

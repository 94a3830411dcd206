// RUN: poplar-opt %s | poplar-opt | FileCheck %s

// CHECK: nn.cache @keys : tensor<?x1x16x4xf32>
nn.cache @keys : tensor<?x1x16x4xf32>
nn.cache @values : tensor<?x1x16x4xf32>

// CHECK-LABEL: func @attend
func.func @attend(%q: tensor<?x2x8xf32>, %k: tensor<?x2x4xf32>, %v: tensor<?x2x4xf32>, %at: tensor<?x2xi32>) -> tensor<?x2x8xf32> {
  // CHECK: %[[K:.*]] = nn.get_cache @keys : tensor<?x1x16x4xf32>
  // CHECK: %[[V:.*]] = nn.get_cache @values
  %0 = nn.get_cache @keys : tensor<?x1x16x4xf32>
  %1 = nn.get_cache @values : tensor<?x1x16x4xf32>
  // CHECK: nn.rope %{{.*}} at %[[AT:.*]] length 9 head_dim 4 inv_freq [1.000000e+00] : tensor<?x2x8xf32>, tensor<?x2xi32>
  %2 = nn.rope %q at %at length 9 head_dim 4 inv_freq [1.0] : tensor<?x2x8xf32>, tensor<?x2xi32>
  // CHECK: nn.cached_attention %{{.*}}, %{{.*}}, %{{.*}} at %[[AT]] caches %[[K]], %[[V]] heads 2 kv_heads 1 scale 5.000000e-01 window 3 cap 2.000000e+00
  %3:3 = nn.cached_attention %2, %k, %v at %at caches %0, %1 heads 2 kv_heads 1 scale 0.5 window 3 cap 2.0 : (tensor<?x2x8xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>)
  return %3#0 : tensor<?x2x8xf32>
}

// CHECK-LABEL: func @sinks
func.func @sinks(%q: tensor<?x2x8xf32>, %k: tensor<?x2x4xf32>, %at: tensor<?x2xi32>, %sinks: tensor<2xf32>, %keys: tensor<?x1x16x4xf32>) {
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} sinks %{{.*}} causal heads 2
  %0:2 = nn.attention %q, %k, %k sinks %sinks causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x2x8xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<2xf32>) -> (tensor<?x2x8xf32>, tensor<?x2x2xf32>)
  // CHECK: nn.cached_attention %{{.*}}, %{{.*}}, %{{.*}} at %{{.*}} caches %{{.*}}, %{{.*}} sinks %{{.*}} heads 2
  %1:3 = nn.cached_attention %q, %k, %k at %at caches %keys, %keys sinks %sinks heads 2 kv_heads 1 scale 0.5 : (tensor<?x2x8xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2xi32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>, tensor<2xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>)
  return
}

// CHECK-LABEL: func @embed
func.func @embed(%x: tensor<?x2x8xf32>, %t: tensor<9x8xf32>, %at: tensor<?x2xi32>) -> tensor<?x2x8xf32> {
  // CHECK: nn.position_embedding %{{.*}}, %{{.*}} at %{{.*}} :
  %0 = nn.position_embedding %x, %t at %at : (tensor<?x2x8xf32>, tensor<9x8xf32>, tensor<?x2xi32>) -> tensor<?x2x8xf32>
  return %0 : tensor<?x2x8xf32>
}

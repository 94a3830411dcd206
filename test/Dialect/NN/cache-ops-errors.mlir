// RUN: poplar-opt %s -split-input-file -verify-diagnostics

func.func @f() {
  // expected-error @below {{@q is not the name of an nn.cache}}
  %0 = nn.get_cache @q : tensor<?x1x16x4xf32>
  return
}

// -----

// expected-note @below {{cache declared here}}
nn.cache @c : tensor<?x1x16x4xf32>
func.func @f() {
  // expected-error @below {{has type 'tensor<?x1x32x4xf32>', but the cache is 'tensor<?x1x16x4xf32>'}}
  %0 = nn.get_cache @c : tensor<?x1x32x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x2x8xf32>, %at: tensor<?x2xi32>) {
  // expected-error @below {{needs a length with positions, and only then}}
  %0 = nn.rope %x at %at head_dim 4 inv_freq [1.0] : tensor<?x2x8xf32>, tensor<?x2xi32>
  return
}

// -----

func.func @f(%x: tensor<?x2x8xf32>, %at: tensor<?x3xi32>) {
  // expected-error @below {{positions is [?,3], expected [?,2] to fit x [?,2,8]}}
  %0 = nn.rope %x at %at length 9 head_dim 4 inv_freq [1.0] : tensor<?x2x8xf32>, tensor<?x3xi32>
  return
}

// -----

func.func @f(%q: tensor<?x2x12xf32>, %at: tensor<?x2xi32>, %c: tensor<?x1x16x4xf32>) {
  // expected-error @below {{q is 'tensor<?x2x12xf32>', expected 'tensor<?x2x16xf32>'}}
  %0:3 = nn.cached_attention %q at %at caches %c, %c heads 2 kv_heads 1 scale 0.5 : (tensor<?x2x12xf32>, tensor<?x2xi32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x2x16xf32>, %at: tensor<?x2xi32>, %c: tensor<?x1x12x4xf32>) {
  // expected-error @below {{has a cache 'tensor<?x1x12x4xf32>', expected [?,1,P,4] of 'f32' with P a multiple of 16}}
  %0:3 = nn.cached_attention %q at %at caches %c, %c heads 2 kv_heads 1 scale 0.5 : (tensor<?x2x16xf32>, tensor<?x2xi32>, tensor<?x1x12x4xf32>, tensor<?x1x12x4xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x12x4xf32>, tensor<?x1x12x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<?x2x16xf32>, %at: tensor<?x3xi32>, %c: tensor<?x1x16x4xf32>) {
  // expected-error @below {{positions are 'tensor<?x3xi32>', expected one for each row of 'tensor<?x2x8xf32>'}}
  %0:3 = nn.cached_attention %q at %at caches %c, %c heads 2 kv_heads 1 scale 0.5 : (tensor<?x2x16xf32>, tensor<?x3xi32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>) -> (tensor<?x2x8xf32>, tensor<?x1x16x4xf32>, tensor<?x1x16x4xf32>)
  return
}

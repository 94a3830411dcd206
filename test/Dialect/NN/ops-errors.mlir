// RUN: poplar-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{has elements 'bf16', expected f32}}
nn.parameter @p : tensor<4xbf16> ones

// -----

// expected-error @below {{has more than 2^44 elements}}
nn.parameter @p : tensor<4611686018427387904x4xf32> ones

// -----

// expected-error @below {{std is -1.000000e+00, expected a finite number, not negative}}
nn.parameter @p : tensor<4xf32> normal std -1.0

// -----

// expected-error @below {{std needs the init 'normal' or 'uniform', found 'ones'}}
nn.parameter @p : tensor<4xf32> ones std 0.1

// -----

func.func @f() {
  // expected-error @below {{@q is not the name of an nn.parameter}}
  %0 = nn.get_parameter @q : tensor<4xf32>
  return
}

// -----

// expected-note @below {{parameter declared here}}
nn.parameter @p : tensor<4xf32> ones
func.func @f() {
  // expected-error @below {{has type 'tensor<4xbf16>', but the parameter is 'tensor<4xf32>'}}
  %0 = nn.get_gradient @p : tensor<4xbf16>
  return
}

// -----

// expected-note @below {{parameter declared here}}
nn.parameter @p : tensor<4xf32> ones
func.func @f() {
  // expected-error @below {{has type 'tensor<5xf32>', but the parameter is 'tensor<4xf32>'}}
  %0 = nn.get_parameter @p : tensor<5xf32>
  return
}

// -----

// expected-note @below {{parameter declared here}}
nn.parameter @p : tensor<4xf32> ones
func.func @f(%v: tensor<5xf32>) {
  // expected-error @below {{has type 'tensor<5xf32>', but the parameter is 'tensor<4xf32>'}}
  nn.set_gradient @p, %v : tensor<5xf32>
  return
}

// -----

func.func @f(%ids: tensor<?x5xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{ids is [?,5], expected [?,4] to fit result [?,4,8]}}
  %0 = nn.embedding %ids, %w : (tensor<?x5xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%ids: tensor<?x4xi32>, %w: tensor<16x9xf32>) {
  // expected-error @below {{table is [16,9], expected [16,8] to fit result [?,4,8]}}
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x9xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{result has elements 'bf16', expected 'f32' as table has}}
  %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<3x8xf32>) {
  // expected-error @below {{table has 3 rows, expected at least 4}}
  %0 = nn.position_embedding %x, %w : (tensor<?x4x8xf32>, tensor<3x8xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<4x9xf32>) {
  // expected-error @below {{acc is [4,9], expected [4,8] to fit dy [?,4,8]}}
  %0 = nn.position_embedding_grad %x into %w : (tensor<?x4x8xf32>, tensor<4x9xf32>) -> tensor<4x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x9xf32>) {
  // expected-error @below {{weight [out,in] is [16,9], expected [16,8] to fit x [?,4,8] and 16 outputs}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x9xf32>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{weight [in,out] is [16,8], expected [8,16] to fit x [?,4,8] and 16 outputs}}
  %0 = nn.linear %x, %w layout in_out : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{bias is [8], expected [16] to fit result [?,4,16]}}
  %0 = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<8xf32>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{result is [?,5,16], expected [?,4,16] to fit x [?,4,8]}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x5x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %ids: tensor<?x5xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{ids is [?,5], expected [?,4] to fit dy [?,4,8]}}
  %0 = nn.embedding_grad %x, %ids into %w : (tensor<?x4x8xf32>, tensor<?x5xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %w: tensor<8x16xf32>) {
  // expected-error @below {{acc [out,in] is [8,16], expected [16,8] to fit x [?,4,8] and 16 outputs}}
  %0 = nn.linear_grad_weight %dy, %x into %w : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) {
  // expected-error @below {{acc [out,in] is [8,16], expected [16,8] to fit x [?,4,8] and 16 outputs}}
  %0:2 = nn.linear_grad_weight_bias %dy, %x into %w bias %b : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @f(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{bias_acc is [8], expected [16] to fit dy [?,4,16]}}
  %0:2 = nn.linear_grad_weight_bias %dy, %x into %w bias %b : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<8xf32>) -> (tensor<16x8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<9xf32>) {
  // expected-error @below {{acc is [9], expected [8] to fit dy [?,4,8]}}
  %0 = nn.sum_rows %x into %g : (tensor<?x4x8xf32>, tensor<9xf32>) -> tensor<9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<9xf32>) {
  // expected-error @below {{gamma is [9], expected [8] to fit x [?,4,8]}}
  %0:2 = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<9xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{eps is 0.000000e+00, expected a finite number above 0}}
  %0:2 = nn.rms_norm %x, %g eps 0.0 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{mean is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0:3 = nn.layer_norm %x, %g, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x5xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %r: tensor<?x5xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{rstd is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0 = nn.norm_grad_gamma %x, %x rstd %r into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x5xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>, %r: tensor<?x5xf32>, %s: tensor<?x4xf32>) {
  // expected-error @below {{mean is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0 = nn.layer_norm_grad %x, %x, %g mean %r rstd %s : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x5xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<9xf32>, %r: tensor<?x4xf32>) {
  // expected-error @below {{gamma is [9], expected [8] to fit x [?,4,8]}}
  %0 = nn.rms_norm_grad %x, %x, %g rstd %r : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<9xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{head_dim is 3, expected an even number above 0}}
  %0 = nn.rope %x head_dim 3 inv_freq [1.0] : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{x [?,4,8] does not consist of heads of 6}}
  %0 = nn.rope %x head_dim 6 inv_freq [1.0, 0.1, 0.01] : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{has 3 frequencies, expected 1 to head_dim / 2 = 2}}
  %0 = nn.rope %x head_dim 4 inv_freq [1.0, 0.1, 0.01] : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{rotates 3 heads, but x has 2}}
  %0 = nn.rope %x head_dim 4 inv_freq [1.0] heads 3 : tensor<?x4x8xf32>
  return
}

// -----

func.func @rope_table(%x: tensor<?x4x8xf32>, %p: tensor<?x4xi32>) -> tensor<?x4x8xf32> {
  // expected-error@+1 {{'nn.rope' op has 268435457 positions with 1 frequencies, more than 2^28 angles}}
  %0 = nn.rope %x at %p length 268435457 head_dim 4 inv_freq [1.0] : tensor<?x4x8xf32>, tensor<?x4xi32>
  return %0 : tensor<?x4x8xf32>
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{result [?,4,8] does not divide into 3 heads}}
  %0:2 = nn.attention %x, %k, %k  heads 3 kv_heads 1 scale 0.5  : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{2 heads cannot share 3 key-value heads evenly}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 3 scale 0.5  : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{k is [?,4,8], expected [?,4,4] to fit result [?,4,8]}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 1 scale 0.5  : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{lse is [?,4,4], expected [?,2,4] to fit result [?,4,8]}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 2 scale 0.5  : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{window is -1, expected 0 (none) or more}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 2 scale 0.5 window -1 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{dropout is 1.000000e+00, expected a probability in [0, 1)}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 2 scale 0.5 dropout 1.0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xf32>) {
  // expected-error @below {{draws dropout but has no keys}}
  %0:2 = nn.attention %x, %k, %k  heads 2 kv_heads 2 scale 0.5 dropout 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{packed q is [?,4,8], expected [?,4,24] to fit result [?,4,8]}}
  %0:2 = nn.attention %x heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x2x4xf32>, %k: tensor<?x4x4xf32>) {
  // expected-error @below {{dk is [?,4,8], expected [?,4,4] to fit k [?,4,4]}}
  %0:3 = "nn.attention_grad"(%x, %x, %l, %x, %k, %k) <{num_heads = 2 : i64, num_kv_heads = 1 : i64, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x2x4xf32>, %k: tensor<?x4x4xf32>) {
  // expected-error @below {{needs dk and dv exactly if it has k and v}}
  %0 = "nn.attention_grad"(%x, %x, %l, %x, %k, %k) <{num_heads = 2 : i64, num_kv_heads = 1 : i64, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{result is [?,4,9], expected [?,4,8] to fit x [?,4,8]}}
  %0 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4xi32>) {
  // expected-error @below {{x has elements 'i32', expected floats}}
  %0 = nn.cast %x : tensor<?x4xi32> to tensor<?x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x3xi32>) {
  // expected-error @below {{keys is [?,3], expected [?,2] to fit x [?,4,8]}}
  %0 = nn.dropout %x keys %k p 0.1 op_id 0 : tensor<?x4x8xf32>, tensor<?x3xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x2xi32>) {
  // expected-error @below {{p is 1.000000e+00, expected a probability in [0, 1)}}
  %0 = nn.dropout %x keys %k p 1.0 op_id 0 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x3xi32>) {
  // expected-error @below {{keys is [?,3], expected [?,2] to fit x [?,4,8]}}
  %0 = nn.noise %x keys %k magnitude 0.1 op_id 0 : tensor<?x4x8xf32>, tensor<?x3xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x2xi32>) {
  // expected-error @below {{tokens [2, 5], expected the first of the rows and how many tokens a sample has}}
  %0 = nn.noise %x keys %k magnitude 0.1 op_id 0 tokens [2, 5] : tensor<?x4x8xf32>, tensor<?x2xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x2xi32>) {
  // expected-error @below {{magnitude is -1.000000e+00, expected a finite number that is not below 0}}
  %0 = nn.noise %x keys %k magnitude -1.0 op_id 0 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %t: tensor<?x5xi32>) {
  // expected-error @below {{targets is [?,5], expected [?,4] to fit logits [?,4,8]}}
  %0:2 = nn.cross_entropy %x, %t : (tensor<?x4x8xf32>, tensor<?x5xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %t: tensor<?x4xi32>, %l: tensor<?x4xf32>, %d: tensor<?x5xf32>) {
  // expected-error @below {{dloss is [?,5], expected [?,4] to fit logits [?,4,8]}}
  %0 = nn.cross_entropy_grad %x, %t lse %l dloss %d : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x5xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%p: tensor<6xf32>, %h: tensor<8xf32>) {
  // expected-error @below {{m is [8], expected [6] to fit p [6]}}
  %0:3 = nn.adamw %p, %p, %h, %p hyper %h : (tensor<6xf32>, tensor<6xf32>, tensor<8xf32>, tensor<6xf32>, tensor<8xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// -----

func.func @f(%p: tensor<6xf32>) {
  // expected-error @below {{hyper is [6], expected [8]}}
  %0:3 = nn.adamw %p, %p, %p, %p hyper %p : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>)
  return
}

// -----

func.func @f(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{padding_idx 16 is not a row of a table of 16}}
  %0 = nn.embedding %ids, %w padding_idx 16 : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %ids: tensor<?x4xi32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{padding_idx -1 is not a row of a table of 16}}
  %0 = nn.embedding_grad %x, %ids into %w padding_idx -1 : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %ids: tensor<?x4xi32>, %w: tensor<16x9xf32>) {
  // expected-error @below {{acc is [16,9], expected [16,8] to fit dy [?,4,8]}}
  %0 = nn.embedding_grad %x, %ids into %w : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x9xf32>) -> tensor<16x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{result is [?,4,9], expected [?,4,8] to fit x [?,4,8]}}
  %0 = nn.position_embedding %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xbf16>) {
  // expected-error @below {{table has elements 'bf16', expected 'f32' as x has}}
  %0 = nn.position_embedding %x, %w : (tensor<?x4x8xf32>, tensor<16x8xbf16>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<3x8xf32>) {
  // expected-error @below {{acc has 3 rows, expected at least 4}}
  %0 = nn.position_embedding_grad %x into %w : (tensor<?x4x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xbf16>) {
  // expected-error @below {{weight has elements 'bf16', expected 'f32' as x has}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xbf16>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xbf16>) {
  // expected-error @below {{bias has elements 'bf16', expected 'f32' as x has}}
  %0 = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xbf16>) -> tensor<?x4x16xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x5x16xf32>, %x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{dy is [?,5,16], expected [?,4,16] to fit x [?,4,8]}}
  %0 = nn.linear_grad_weight %dy, %x into %w : (tensor<?x5x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @f(%dy: tensor<?x4x16xbf16>, %x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>) {
  // expected-error @below {{dy has elements 'bf16', expected 'f32' as x has}}
  %0 = nn.linear_grad_weight %dy, %x into %w : (tensor<?x4x16xbf16>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>, %b: tensor<9xf32>) {
  // expected-error @below {{beta is [9], expected [8] to fit x [?,4,8]}}
  %0:3 = nn.layer_norm %x, %g, %b eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<9xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>, %b: tensor<8xbf16>) {
  // expected-error @below {{beta has elements 'bf16', expected 'f32' as x has}}
  %0:3 = nn.layer_norm %x, %g, %b eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xbf16>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{rstd is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0:3 = nn.layer_norm %x, %g, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x5xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{offset is INF, expected a finite number}}
  %0:3 = nn.layer_norm %x, %g eps 1.0e-5 offset 0x7FF0000000000000 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{eps is -1.000000e+00, expected a finite number above 0}}
  %0:3 = nn.layer_norm %x, %g, %g eps -1.0 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{result has elements 'bf16', expected 'f32' as x has}}
  %0:2 = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xbf16>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %dy: tensor<?x4x9xf32>, %r: tensor<?x4xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{dy is [?,4,9], expected [?,4,8] to fit x [?,4,8]}}
  %0 = nn.norm_grad_gamma %dy, %x rstd %r into %g : (tensor<?x4x9xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %r: tensor<?x4xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{failed to verify that result has the type of acc}}
  %0 = nn.norm_grad_gamma %x, %x rstd %r into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %r: tensor<?x4xf32>, %m: tensor<?x5xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{mean is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0 = nn.norm_grad_gamma %x, %x rstd %r mean %m into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x5xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>, %r: tensor<?x4xf32>) {
  // expected-error @below {{result is [?,4,9], expected [?,4,8] to fit x [?,4,8]}}
  %0 = nn.rms_norm_grad %x, %x, %g rstd %r : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>) -> tensor<?x4x9xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{needs both k and v, or a packed q alone}}
  %0:2 = "nn.attention"(%x, %x) <{num_heads = 2 : i64, num_kv_heads = 2 : i64, scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0>}> : (tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x4xf32>, %v: tensor<?x4x8xf32>) {
  // expected-error @below {{v is [?,4,8], expected [?,4,4] to fit result [?,4,8]}}
  %0:2 = nn.attention %x, %k, %v heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %k: tensor<?x4x8xbf16>) {
  // expected-error @below {{k has elements 'bf16', expected 'f32' as q has}}
  %0:2 = nn.attention %x, %k, %k heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xbf16>, tensor<?x4x8xbf16>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %keys: tensor<?x3xi32>) {
  // expected-error @below {{keys is [?,3], expected [?,2] to fit result [?,4,8]}}
  %0:2 = nn.attention %x, %x, %x keys %keys heads 2 kv_heads 2 scale 0.5 dropout 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x3xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %o: tensor<?x4x9xf32>, %l: tensor<?x2x4xf32>) {
  // expected-error @below {{out is [?,4,9], expected [?,4,8] to fit dy [?,4,8]}}
  %0:3 = nn.attention_grad %x out %o lse %l qkv %x, %x, %x heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x9xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x2x4xf32>, %p: tensor<?x4x24xf32>) {
  // expected-error @below {{dq is [?,4,8], expected [?,4,24] to fit q [?,4,24]}}
  %0 = nn.attention_grad %x out %x lse %l qkv %p heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x24xf32>) -> tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %l: tensor<?x2x4xf32>, %k: tensor<?x4x4xf32>) {
  // expected-error @below {{dv is [?,4,8], expected [?,4,4] to fit v [?,4,4]}}
  %0:3 = nn.attention_grad %x out %x lse %l qkv %x, %k, %k heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x8xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{result has elements 'i32', expected floats}}
  %0 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xi32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %t: tensor<?x4xi32>) {
  // expected-error @below {{loss is [?,5], expected [?,4] to fit logits [?,4,8]}}
  %0:2 = nn.cross_entropy %x, %t : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x5xf32>, tensor<?x4xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %t: tensor<?x4xi32>, %l: tensor<?x4xf32>) {
  // expected-error @below {{result is [?,4,9], expected [?,4,8] to fit logits [?,4,8]}}
  %0 = nn.cross_entropy_grad %x, %t lse %l dloss %l : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x9xf32>
  return
}

// -----

func.func @positions_of_others(%x: tensor<?x4x8xf32>, %p: tensor<?x5xi32>) {
  // expected-error@+1 {{'nn.rope' op positions is [?,5], expected [?,4] to fit x [?,4,8]}}
  %0 = nn.rope %x at %p length 5 head_dim 4 inv_freq [1.0] : tensor<?x4x8xf32>, tensor<?x5xi32>
  return
}

// -----

func.func @positions_of_both_sides(%x: tensor<?x4x8xf32>, %p: tensor<?x4xi32>) {
  // expected-error@+1 {{'nn.attention' op has positions, but is not causal: where a document ends is not known}}
  %0:2 = nn.attention %x, %x, %x positions %p heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @sinks_of_other_heads(%x: tensor<?x4x8xf32>, %s: tensor<3xf32>) {
  // expected-error@+1 {{sinks is [3], expected [2] to fit q [?,4,8]}}
  %0:2 = nn.attention %x, %x, %x sinks %s causal heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<3xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

// -----

func.func @positions_of_a_constant_row(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %p: tensor<?x4xi32>) {
  // expected-error@+1 {{'nn.position_embedding' op has positions and a constant row}}
  %0 = nn.position_embedding %x, %w at %p constant_row : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<?x4xi32>) -> tensor<?x4x8xf32>
  return
}

// -----

// expected-error @below {{is of type 'tensor<8x8x!nn.quantized<nf4>>', but only frozen matrices are quantised}}
nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones

// -----

// expected-error @below {{is of type 'tensor<8x!nn.quantized<nf4>>', but only frozen matrices are quantised}}
nn.parameter @q : tensor<8x!nn.quantized<nf4>> ones frozen

// -----

// expected-note @below {{parameter declared here}}
nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
func.func @f() {
  // expected-error @below {{has type 'tensor<8x8xbf16>', but the parameter is 'tensor<8x8x!nn.quantized<nf4>>'}}
  %0 = nn.get_parameter @q : tensor<8x8xbf16>
  return
}

// -----

func.func @f(%x: tensor<?x4x16xf32>, %w: tensor<16x16x!nn.quantized<nf4>>) {
  // expected-error @below {{multiplies in fp8 by a quantised weight, which is in few bits already: leave out --fp8-products, or --frozen-format}}
  %0 = nn.linear %x, %w fp8 : (tensor<?x4x16xf32>, tensor<16x16x!nn.quantized<nf4>>) -> tensor<?x4x16xf32>
  return
}

// -----

// expected-error @below {{has a slice that cuts blocks of 64 quantised values}}
nn.parameter @w : tensor<8x32x!nn.quantized<nf4>> zeros frozen slice #nn.slice<of "v" shape [8, 64] dim 1 ranges [0, 32]>

// -----

// expected-error @below {{is of type 'tensor<8x16xf32>', but its slice is of 'tensor<8x32xf32>'}}
nn.parameter @w : tensor<8x16xf32> zeros slice #nn.slice<of "v" shape [8, 64] dim 1 ranges [0, 16, 48, 64]>

// -----

// expected-error @below {{is of type 'tensor<0x4xf32>', which has no elements}}
nn.parameter @p : tensor<0x4xf32> ones

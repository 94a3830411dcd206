// RUN: poplar-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{factor is INF, expected a finite number}}
  %0 = nn.scale %x factor 0x7FF0000000000000 : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{cap is 0.000000e+00, expected a finite number above 0}}
  %0 = nn.softcap %x cap 0.0 : tensor<?x4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{has offset 5, which with 4 columns leaves the 8 that there are}}
  %0 = nn.slice %x offset 5 : (tensor<?x4x8xf32>) -> tensor<?x4x4xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{expected other columns only}}
  %0 = nn.slice_grad %x offset 0 : (tensor<?x4x8xf32>) -> tensor<?x5x16xf32>
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{x [?,4,8] does not divide into 3 heads}}
  %0:2 = nn.rms_norm %x, %g eps 1.0e-5 heads 3 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x12xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{gamma is [8], expected [4] to fit x [?,4,8]}}
  %0:2 = nn.rms_norm %x, %g eps 1.0e-5 heads 2 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x8xf32>)
  return
}

// -----

func.func @f(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{cap is -1.000000e+00, expected 0 (none) or a finite number above}}
  %0:2 = nn.attention %x, %x, %x heads 2 kv_heads 2 scale 0.5 cap -1.0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  return
}

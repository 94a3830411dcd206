// RUN: poplar-opt %s -split-input-file -verify-diagnostics --nn-convert-precision=type=bf16
// RUN: not poplar-opt %s --nn-convert-precision=type=f8 2>&1 | FileCheck %s

// CHECK: unknown 'f8', expected f32, bf16, f16, tf32

func.func private @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  // expected-error @below {{has no rule for a change of precision}}
  %0 = math.exp %x : tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

nn.parameter @p : tensor<4xf32> ones
func.func @train() {
  // expected-error @below {{is made by --nn-differentiate: run --nn-convert-precision before it}}
  %0 = nn.get_gradient @p : tensor<4xf32>
  nn.set_gradient @p, %0 : tensor<4xf32>
  return
}

// -----

func.func @receive() {
  // expected-error @below {{has no rule for a change of precision}}
  %x = zero.receive activation from 0 : tensor<?x4x8xf32>
  return
}

// -----

func.func @send(%x: tensor<?x4x8xf32>) {
  // expected-error @below {{has no rule for a change of precision}}
  zero.send activation %x to 1 : tensor<?x4x8xf32>
  return
}

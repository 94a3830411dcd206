// RUN: poplar-opt %s --nn-store-activations=type=f16 --split-input-file --verify-diagnostics
// RUN: not poplar-opt %s --nn-store-activations=type=f8 2>&1 | FileCheck %s

// CHECK: unknown 'f8', expected f32, bf16, f16, tf32

func.func private @block(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  return %x : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf16> {
  // expected-error @below {{passes an activation that is not the result of a unit: move all other ops into units}}
  %y = call @block(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  %z = nn.cast %y : tensor<?x4x8xf32> to tensor<?x4x8xf16>
  return %z : tensor<?x4x8xf16>
}

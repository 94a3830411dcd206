// RUN: poplar-opt %s --nn-convert-precision=type=bf16 | FileCheck %s
// RUN: poplar-opt %s --nn-convert-precision=type=f32 | FileCheck %s --check-prefix=F32
// RUN: poplar-opt %s --nn-convert-precision=type=bf16 --nn-convert-precision=type=f32 | FileCheck %s --check-prefix=F32

// CHECK: nn.model = {architecture = "tiny", precision = "bf16"}
// F32-NOT: precision
// F32-NOT: bf16
module attributes {nn.model = {architecture = "tiny"}} {
  // Masters stay f32.
  // CHECK: nn.parameter @w : tensor<16x8xf32>
  nn.parameter @w : tensor<16x8xf32> normal std 0.02 decay
  nn.parameter @g : tensor<8xf32> ones

  // CHECK-LABEL: func private @embed(
  // CHECK-SAME: tensor<16x8xbf16> {nn.parameter}) -> tensor<?x4x8xbf16>
  func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
  // CHECK-LABEL: func private @block(
  func.func private @block(%x: tensor<?x4x8xf32>, %g: tensor<8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
    // Statistics stay f32.
    // CHECK: nn.rms_norm {{.*}} -> (tensor<?x4x8xbf16>, tensor<?x4xf32>)
    %0:2 = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
    // CHECK: nn.attention {{.*}} -> (tensor<?x4x8xbf16>, tensor<?x2x4xf32>)
    %1:2 = nn.attention %0#0, %0#0, %0#0 causal heads 2 kv_heads 2 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
    // CHECK: nn.add {{.*}} : tensor<?x4x8xbf16>
    %2 = nn.add %x, %1#0 : tensor<?x4x8xf32>
    return %2 : tensor<?x4x8xf32>
  }
  // CHECK-LABEL: func private @loss(
  // CHECK-SAME: tensor<?x4x8xbf16>, %{{.*}}: tensor<?x4xi32>) -> tensor<?x4xf32>
  func.func private @loss(%x: tensor<?x4x8xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
    // CHECK: nn.cross_entropy {{.*}} : (tensor<?x4x8xbf16>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    %0:2 = nn.cross_entropy %x, %t : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    return %0#0 : tensor<?x4xf32>
  }
  // CHECK-LABEL: func @model(
  func.func @model(%ids: tensor<?x4xi32>, %t: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
    // CHECK: nn.get_parameter @w : tensor<16x8xbf16>
    %w = nn.get_parameter @w : tensor<16x8xf32>
    %g = nn.get_parameter @g : tensor<8xf32>
    // CHECK: call @embed({{.*}}) : (tensor<?x4xi32>, tensor<16x8xbf16>) -> tensor<?x4x8xbf16>
    %0 = call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    %1 = call @block(%0, %g) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
    // CHECK: call @loss({{.*}}) -> tensor<?x4xf32>
    %2 = call @loss(%1, %t) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
    return %2 : tensor<?x4xf32>
  }
}

// RUN: poplar-opt %s --nn-store-activations=type=f16 | FileCheck %s
// RUN: poplar-opt %s --nn-store-activations=type=f16 --nn-differentiate | FileCheck %s --check-prefix=GRAD

// CHECK: precision = "f16"
module attributes {nn.model = {architecture = "tiny"}} {
  nn.parameter @w : tensor<16x8xf32> normal std 0.02 decay
  nn.parameter @g : tensor<8xf32> ones

  // Parameters and what is computed stay f32, losses as well.
  // CHECK-LABEL: func private @embed(
  // CHECK-SAME: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf16>
  // CHECK: %[[E:.*]] = nn.embedding {{.*}} -> tensor<?x4x8xf32>
  // CHECK: %[[H:.*]] = nn.cast %[[E]] : tensor<?x4x8xf32> to tensor<?x4x8xf16>
  // CHECK: return %[[H]]
  func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
  // CHECK-LABEL: func private @loss(
  // CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x4x8xf16>
  // CHECK-SAME: -> tensor<?x4xf32>
  // CHECK: %[[W:.*]] = nn.cast %[[X]] : tensor<?x4x8xf16> to tensor<?x4x8xf32>
  // CHECK: nn.cross_entropy %[[W]]
  // GRAD-LABEL: func private @loss.backward
  // GRAD-SAME: -> tensor<?x4x8xf16>
  func.func private @loss(%x: tensor<?x4x8xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
    %0:2 = nn.cross_entropy %x, %t : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    return %0#0 : tensor<?x4xf32>
  }
  // CHECK-LABEL: func @model(
  // CHECK: call @embed{{.*}} -> tensor<?x4x8xf16>
  // CHECK: call @loss{{.*}} -> tensor<?x4xf32>
  func.func @model(%ids: tensor<?x4xi32>, %t: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
    %w = nn.get_parameter @w : tensor<16x8xf32>
    %x = call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    %loss = call @loss(%x, %t) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
    return %loss : tensor<?x4xf32>
  }
}

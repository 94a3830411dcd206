// RUN: poplar-opt %s --nn-freeze-parameters="trained=h.1.fc.weight,h.2.fc.weight" | FileCheck %s
// RUN: poplar-opt %s --nn-freeze-parameters="trained=h.0.fc.weight,h.1.fc.weight,h.2.fc.weight" | FileCheck %s --check-prefix=ALL

// CHECK-DAG: nn.parameter @h.0.fc.weight : tensor<8x8xf32> {{ *}}normal std 2.000000e-02 decay frozen
// CHECK-DAG: nn.parameter @h.1.fc.weight : tensor<8x8xf32> {{ *}}normal std 2.000000e-02 decay{{$}}
// CHECK-DAG: nn.parameter @h.2.fc.weight : tensor<8x8xf32> {{ *}}normal std 2.000000e-02 decay{{$}}

// The layers of which a weight is trained share a copy of their unit.
// CHECK:       func.func private @block(
// CHECK:       func.func private @block_0(
// CHECK-NEXT:    nn.linear
// CHECK-LABEL: func.func @model(
// CHECK:         call @block(
// CHECK:         call @block_0(
// CHECK:         call @block_0(

// Nothing is copied where all calls are alike.
// ALL-NOT: frozen
// ALL-NOT: @block_0

nn.parameter @h.0.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @h.1.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
nn.parameter @h.2.fc.weight : tensor<8x8xf32> normal std 2.0e-02 decay
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
func.func @model(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  %w0 = nn.get_parameter @h.0.fc.weight : tensor<8x8xf32>
  %0 = call @block(%x, %w0) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %w1 = nn.get_parameter @h.1.fc.weight : tensor<8x8xf32>
  %1 = call @block(%0, %w1) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %w2 = nn.get_parameter @h.2.fc.weight : tensor<8x8xf32>
  %2 = call @block(%1, %w2) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

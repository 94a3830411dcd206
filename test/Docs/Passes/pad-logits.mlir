// RUN: poplar-opt %s --pad-logits | FileCheck %s

func.func private @head(%x: tensor<?x4x8xbf16>, %w: tensor<257x8xbf16>) -> tensor<?x4x257xbf16> attributes {nn.unit} {
  %y = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16>
  return %y : tensor<?x4x257xbf16>
}

// The result:
//
// CHECK:   func.func private @head(%arg0: tensor<?x4x8xbf16>, %arg1: tensor<257x8xbf16>) -> tensor<?x4x257xbf16, #exec.row<320>> attributes {nn.unit} {
// CHECK-NEXT:     %0 = nn.linear %arg0, %arg1 : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16, #exec.row<320>>
// CHECK-NEXT:     return %0 : tensor<?x4x257xbf16, #exec.row<320>>
// CHECK-NEXT:   }

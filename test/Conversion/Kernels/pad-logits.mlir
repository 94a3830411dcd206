// RUN: poplar-opt %s --pad-logits | FileCheck %s
// RUN: poplar-opt %s --pad-logits --remarks-filter=pad-logits -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: poplar-opt %s --pad-logits --convert-nn-to-linalg --canonicalize --form-kernels --plan-memory=workspace-bytes=0 | FileCheck %s --check-prefix=MEMORY

// Rows of 257 elements of 16 bits begin at odd places. Those of logits, and of
// their gradient, are put 320 elements apart, wherever units hand them on.

// CHECK-LABEL: func private @head
// CHECK-SAME: -> tensor<?x4x257xbf16, #exec.row<320>>
// CHECK: nn.linear {{.*}} -> tensor<?x4x257xbf16, #exec.row<320>>
// REMARK: remark: [Passed] RowsPadded | Category:pad-logits | Function=head | Columns=257
func.func private @head(%x: tensor<?x4x8xbf16>, %w: tensor<257x8xbf16> {nn.parameter}) -> tensor<?x4x257xbf16> attributes {nn.unit} {
  %y = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16>
  return %y : tensor<?x4x257xbf16>
}

// The kernel's arguments have such rows, too; what it reads of them is what there
// was.
// CHECK-LABEL: func private @loss
// CHECK-SAME: (%{{.*}}: tensor<?x4x257xbf16, #exec.row<320>>, %{{.*}}) -> (tensor<?x4xf32>, tensor<?x4x257xbf16, #exec.row<320>>)
// CHECK: nn.cross_entropy_grad {{.*}} -> tensor<?x4x257xbf16, #exec.row<320>>
// MEMORY-LABEL: exec.function unit @loss
// MEMORY-SAME: memref<?x4x257xbf16, strided<[1280, 320, 1]>>
func.func private @loss(%x: tensor<?x4x257xbf16>, %t: tensor<?x4xi32>, %d: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4x257xbf16>) attributes {nn.unit} {
  %loss, %lse = nn.cross_entropy %x, %t : (tensor<?x4x257xbf16>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  %g = nn.cross_entropy_grad %x, %t lse %lse dloss %d : (tensor<?x4x257xbf16>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x257xbf16>
  return %loss, %g : tensor<?x4xf32>, tensor<?x4x257xbf16>
}

// CHECK-LABEL: func private @backward
// CHECK: nn.linear {{.*}} layout in_out : (tensor<?x4x257xbf16, #exec.row<320>>, tensor<257x8xbf16>) -> tensor<?x4x8xbf16>
// CHECK: nn.linear_grad_weight {{.*}} : (tensor<?x4x257xbf16, #exec.row<320>>,
func.func private @backward(%g: tensor<?x4x257xbf16>, %x: tensor<?x4x8xbf16>, %w: tensor<257x8xbf16> {nn.parameter}, %a: tensor<257x8xf32> {nn.gradient}) -> (tensor<?x4x8xbf16>, tensor<257x8xf32>) attributes {nn.unit} {
  %dx = nn.linear %g, %w layout in_out : (tensor<?x4x257xbf16>, tensor<257x8xbf16>) -> tensor<?x4x8xbf16>
  %dw = nn.linear_grad_weight %g, %x into %a : (tensor<?x4x257xbf16>, tensor<?x4x8xbf16>, tensor<257x8xf32>) -> tensor<257x8xf32>
  return %dx, %dw : tensor<?x4x8xbf16>, tensor<257x8xf32>
}

// Whoever samples is given dense logits.
// CHECK-LABEL: func private @dense_head
// CHECK-SAME: -> tensor<?x4x257xbf16>
// REMARK: remark: [Missed] RowsNotPadded | Category:pad-logits | Function=dense_head | Columns=257, Reason="a step returns it"
func.func private @dense_head(%x: tensor<?x4x8xbf16>, %w: tensor<257x8xbf16> {nn.parameter}) -> tensor<?x4x257xbf16> attributes {nn.unit} {
  %y = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16>
  return %y : tensor<?x4x257xbf16>
}

// Rows that begin aligned stay as they are.
// CHECK-LABEL: func private @even
// CHECK-SAME: -> tensor<?x4x264xbf16>
func.func private @even(%x: tensor<?x4x8xbf16>, %w: tensor<264x8xbf16> {nn.parameter}) -> tensor<?x4x264xbf16> attributes {nn.unit} {
  %y = nn.linear %x, %w : (tensor<?x4x8xbf16>, tensor<264x8xbf16>) -> tensor<?x4x264xbf16>
  return %y : tensor<?x4x264xbf16>
}

nn.parameter @w : tensor<257x8xf32> normal std 2.0e-2 decay
zero.bucket @b [@w]

func.func @train(%x: tensor<?x4x8xbf16>, %t: tensor<?x4xi32>, %d: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %w = nn.get_parameter @w : tensor<257x8xbf16>
  %y = call @head(%x, %w) : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16>
  %loss, %g = call @loss(%y, %t, %d) : (tensor<?x4x257xbf16>, tensor<?x4xi32>, tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4x257xbf16>)
  %a = nn.get_gradient @w : tensor<257x8xf32>
  %dx, %dw = call @backward(%g, %x, %w, %a) : (tensor<?x4x257xbf16>, tensor<?x4x8xbf16>, tensor<257x8xbf16>, tensor<257x8xf32>) -> (tensor<?x4x8xbf16>, tensor<257x8xf32>)
  nn.set_gradient @w, %dw : tensor<257x8xf32>
  return %loss : tensor<?x4xf32>
}

func.func @infer(%x: tensor<?x4x8xbf16>) -> tensor<?x4x257xbf16> {
  %w = nn.get_parameter @w : tensor<257x8xbf16>
  %y = call @dense_head(%x, %w) : (tensor<?x4x8xbf16>, tensor<257x8xbf16>) -> tensor<?x4x257xbf16>
  return %y : tensor<?x4x257xbf16>
}

// RUN: poplar-opt %s --fuse-gemm-epilogues | FileCheck %s
// RUN: poplar-opt %s --fuse-gemm-epilogues=bias-gradients=false | FileCheck %s --check-prefix=APART
// RUN: poplar-opt %s --fuse-gemm-epilogues --remarks-filter=fuse-gemm-epilogues \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Forward: what went into GELU is kept where somebody reads it.
// CHECK-LABEL: func @forward
// CHECK: %[[Y:.*]], %[[H:.*]] = nn.linear_gelu %{{.*}}, %{{.*}} bias %{{.*}} layout in_out
// CHECK-NOT: nn.gelu
// CHECK: return %[[Y]], %[[H]]
// REMARK: remark: [Passed] EpilogueFused | Category:fuse-gemm-epilogues | Function=forward | Op=nn.gelu
func.func @forward(%x: tensor<?x4x8xf32>, %w: tensor<8x16xf32>, %b: tensor<16xf32>) -> (tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b layout in_out : (tensor<?x4x8xf32>, tensor<8x16xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x16xf32>
  return %y, %h : tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// CHECK-LABEL: func @evaluate
// CHECK: %[[Y:.*]] = nn.linear_gelu %{{.*}}, %{{.*}} bias %{{.*}} : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
// CHECK-NEXT: return %[[Y]]
func.func @evaluate(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<?x4x16xf32> {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x16xf32>
  return %y : tensor<?x4x16xf32>
}

// CHECK-LABEL: func @backward
// CHECK: nn.linear_gelu_grad %{{.*}}, %{{.*}} pre %{{.*}}
// CHECK-NOT: nn.gelu_grad
// REMARK: remark: [Passed] EpilogueFused | Category:fuse-gemm-epilogues | Function=backward | Op=nn.gelu_grad
func.func @backward(%dy: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %h: tensor<?x4x16xf32>) -> tensor<?x4x16xf32> {
  %d = nn.linear %dy, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %h form tanh : tensor<?x4x16xf32>
  return %g : tensor<?x4x16xf32>
}

// GELU by erf is another function.
// CHECK-LABEL: func @erf
// CHECK: nn.linear {{.*}} bias
// CHECK: nn.gelu
// CHECK: nn.linear
// CHECK: nn.gelu_grad
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=erf | Op=nn.gelu, Reason="cuBLASLt has no GELU by erf"
func.func @erf(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>, %dy: tensor<?x4x8xf32>) -> (tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  %y = nn.gelu %h form erf : tensor<?x4x16xf32>
  %d = nn.linear %dy, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %h form erf : tensor<?x4x16xf32>
  return %y, %g : tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// Neither the product of a gradient that others read, nor rows that the library
// does not take.
// CHECK-LABEL: func @others
// CHECK: nn.linear {{.*}} bias
// CHECK: nn.gelu
// CHECK: nn.linear
// CHECK: nn.gelu_grad
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=others | Op=nn.gelu, Reason="a row is not a multiple of 8 elements"
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=others | Op=nn.gelu_grad, Reason="the product has other readers"
func.func @others(%x: tensor<?x4x8xf32>, %w: tensor<12x8xf32>, %b: tensor<12xf32>, %u: tensor<16x8xf32>, %p: tensor<?x4x16xf32>) -> (tensor<?x4x12xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>) {
  %h = nn.linear %x, %w bias %b : (tensor<?x4x8xf32>, tensor<12x8xf32>, tensor<12xf32>) -> tensor<?x4x12xf32>
  %y = nn.gelu %h form tanh : tensor<?x4x12xf32>
  %d = nn.linear %x, %u : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  %g = nn.gelu_grad %d, %p form tanh : tensor<?x4x16xf32>
  return %y, %d, %g : tensor<?x4x12xf32>, tensor<?x4x16xf32>, tensor<?x4x16xf32>
}

// The gradient of a bias is a by-product of the weight's, whatever the layout of
// that.
// CHECK-LABEL: func @bias
// CHECK-SAME: %[[DY:[^:]+]]: tensor<?x4x16xf32>, %[[X:[^:]+]]: tensor<?x4x8xf32>, %[[AW:[^:]+]]: tensor<16x8xf32>, %[[AB:[^:]+]]: tensor<16xf32>
// CHECK: %[[DW:.*]], %[[DB:.*]] = nn.linear_grad_weight_bias %[[DY]], %[[X]] into %[[AW]] bias %[[AB]] : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>)
// CHECK-NEXT: return %[[DW]], %[[DB]]
// From sm_90 on, a kernel adds the rows.
// APART-LABEL: func @bias
// APART: nn.linear_grad_weight {{.*}} into
// APART-NEXT: nn.sum_rows
func.func @bias(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %aw: tensor<16x8xf32>, %ab: tensor<16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>) {
  %dw = nn.linear_grad_weight %dy, %x into %aw : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %db = nn.sum_rows %dy into %ab : (tensor<?x4x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %dw, %db : tensor<16x8xf32>, tensor<16xf32>
}

// CHECK-LABEL: func @bias_in_out
// CHECK: nn.linear_grad_weight_bias {{.*}} layout {{ *}}in_out
// CHECK-NOT: nn.sum_rows
func.func @bias_in_out(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %aw: tensor<8x16xf32>, %ab: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>) {
  %dw = nn.linear_grad_weight %dy, %x into %aw layout in_out : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %db = nn.sum_rows %dy into %ab : (tensor<?x4x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %dw, %db : tensor<8x16xf32>, tensor<16xf32>
}

// With one bias only, and not with what comes later than the product. A sum of x
// is no gradient of this product's bias.
// CHECK-LABEL: func @sums
// CHECK: nn.linear_grad_weight_bias
// CHECK: nn.sum_rows
// CHECK: nn.sum_rows
// CHECK: nn.linear_grad_weight %
// CHECK: nn.get_gradient @b
// CHECK: nn.sum_rows
nn.parameter @b : tensor<8xf32> zeros
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=sums | Op=nn.sum_rows, Reason="no product sums over the same gradient"
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=sums | Op=nn.sum_rows, Reason="the product comes later, or is in another block"
// REMARK: remark: [Missed] EpilogueNotFused | Category:fuse-gemm-epilogues | Function=sums | Op=nn.sum_rows, Reason="what it adds to is computed after the product"
func.func @sums(%dy: tensor<?x4x16xf32>, %x: tensor<?x4x8xf32>, %aw: tensor<16x8xf32>, %av: tensor<8x16xf32>, %ab: tensor<16xf32>, %ac: tensor<16xf32>, %ad: tensor<8xf32>) -> (tensor<16x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<8xf32>) {
  %dw = nn.linear_grad_weight %dy, %x into %aw : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %db = nn.sum_rows %dy into %ab : (tensor<?x4x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %dc = nn.sum_rows %dy into %ac : (tensor<?x4x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  %dd = nn.sum_rows %x into %ad : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %dv = nn.linear_grad_weight %x, %dy into %av : (tensor<?x4x8xf32>, tensor<?x4x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %ae = nn.get_gradient @b : tensor<8xf32>
  %de = nn.sum_rows %x into %ae : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %dw, %db, %dc, %dd, %dv, %de : tensor<16x8xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8x16xf32>, tensor<8xf32>
}

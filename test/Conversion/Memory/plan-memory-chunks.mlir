// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --exec-verify --split-input-file | FileCheck %s
// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --split-input-file --remarks-filter=plan-memory \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// A row of 16 f32 takes 64 bytes. Two of them may be in memory: five tokens are
// two, two and one.

// Nobody runs the kernel of all rows.
// CHECK-NOT: exec.kernel @double(
// CHECK: exec.kernel @double_rows_1(%{{.*}}: tensor<?x1x16xf32>) -> tensor<?x1x16xf32> rows 1 per_sample
// CHECK: exec.kernel @double_rows_2(%{{.*}}: tensor<?x2x16xf32>) -> tensor<?x2x16xf32> rows 2 per_sample
// CHECK-NOT: exec.kernel @double(
exec.kernel @double(%a0: tensor<?x5x16xf32>) -> tensor<?x5x16xf32>
    rows 5 per_sample reuse [array<i64: 0>] {
  exec.yield %a0 : tensor<?x5x16xf32>
}

// The kernel runs in place. A chunk's buffers lie where the last chunk's did. The
// rows of chunks are one after the other in what is outside.
// REMARK: remark: [Passed] Chunks | Category:plan-memory | Function=head | Bytes=320, ChunkTokens=2, Op=nn.linear, Tokens=5
// CHECK-LABEL: exec.function unit @head(
// CHECK-SAME: %[[X:[^:]+]]: memref<?x5x8xf32>, %[[W:[^:]+]]: memref<16x8xf32>, %[[G:[^:]+]]: memref<16x8xf32>, %[[Y:[^:]+]]: memref<?x5x8xf32>) scratch 128 {
// CHECK-NEXT: %[[L:.+]] = exec.buffer scratch at 0 : memref<?x2x16xf32>
// CHECK-NEXT: %[[X0:.+]] = exec.rows %[[X]]
// CHECK-NEXT: exec.product %[[X0]], %[[W]] into %[[L]] trans_b
// CHECK-NEXT: exec.dispatch @double_rows_2(%[[L]], %[[L]])
// CHECK-NEXT: %[[Y0:.+]] = exec.rows %[[Y]]
// CHECK-NEXT: exec.product %[[L]], %[[W]] into %[[Y0]]
// CHECK-NEXT: exec.product %[[L]], %[[X0]] into %[[G]]
// CHECK-NEXT: exec.end %[[L]]
// CHECK-NEXT: %[[L:.+]] = exec.buffer scratch at 0 : memref<?x2x16xf32>
// CHECK:      exec.dispatch @double_rows_2(%[[L]], %[[L]])
// CHECK:      exec.end %[[L]]
// CHECK-NEXT: %[[L:.+]] = exec.buffer scratch at 0 : memref<?x1x16xf32>
// CHECK:      exec.dispatch @double_rows_1(%[[L]], %[[L]])
// CHECK:      exec.product %[[L]], %{{.*}} into %[[G]]
// CHECK-NEXT: exec.end %[[L]]
// CHECK-NEXT: exec.return
func.func private @head(%x: tensor<?x5x8xf32>, %w: tensor<16x8xf32> {nn.parameter},
    %g: tensor<16x8xf32> {nn.gradient}) -> (tensor<?x5x8xf32>, tensor<16x8xf32>)
    attributes {nn.unit, nn.chunk_bytes = 128 : i64} {
  %0 = nn.linear %x, %w : (tensor<?x5x8xf32>, tensor<16x8xf32>) -> tensor<?x5x16xf32>
  %1 = exec.dispatch @double(%0) : (tensor<?x5x16xf32>) -> tensor<?x5x16xf32>
  %2 = nn.linear %1, %w layout in_out : (tensor<?x5x16xf32>, tensor<16x8xf32>) -> tensor<?x5x8xf32>
  %3 = nn.linear_grad_weight %1, %x into %g : (tensor<?x5x16xf32>, tensor<?x5x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  return %2, %3 : tensor<?x5x8xf32>, tensor<16x8xf32>
}

// -----

// A kernel that reads other tokens needs all of them.

exec.kernel @mix(%a0: tensor<?x5x16xf32>) -> tensor<?x5x16xf32>
    flat 80 per_sample {
  exec.yield %a0 : tensor<?x5x16xf32>
}

// REMARK: remark: [Missed] WholeTokens | Category:plan-memory | Function=mixed | Bytes=320, Op=exec.dispatch, Reason="it needs all tokens of a sample"
// CHECK-LABEL: exec.function unit @mixed(
// CHECK-NOT: exec.rows
func.func private @mixed(%x: tensor<?x5x8xf32>, %w: tensor<16x8xf32> {nn.parameter})
    -> tensor<?x5x8xf32> attributes {nn.unit, nn.chunk_bytes = 128 : i64} {
  %0 = nn.linear %x, %w : (tensor<?x5x8xf32>, tensor<16x8xf32>) -> tensor<?x5x16xf32>
  %1 = exec.dispatch @mix(%0) : (tensor<?x5x16xf32>) -> tensor<?x5x16xf32>
  %2 = nn.linear %1, %w layout in_out : (tensor<?x5x16xf32>, tensor<16x8xf32>) -> tensor<?x5x8xf32>
  return %2 : tensor<?x5x8xf32>
}

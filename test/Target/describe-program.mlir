// RUN: poplar-opt %s --poplar-plan="workspace-bytes=0" --describe-program="cpu=x86-64 precision=bf16" -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: poplar-opt %t.mlir --lower-kernels --lower-program | FileCheck %s --check-prefix=LOWER
// RUN: poplar-opt %s --poplar-plan="workspace-bytes=0" -o %t.planned.mlir
// RUN: sed 's/@train\b/@learn/g' %t.planned.mlir | poplar-opt --describe-program | FileCheck %s --check-prefix=ROLE
// RUN: sed '/exec.entry infer/d' %t.planned.mlir | not poplar-opt --describe-program 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: sed 's/, dloss = [0-9]*//' %t.planned.mlir | not poplar-opt --describe-program 2>&1 | FileCheck %s --check-prefix=INPUT
// RUN: not poplar-opt %s --describe-program 2>&1 | FileCheck %s --check-prefix=UNPLANNED
// RUN: sed 's/seq_len = 4 : i64, //' %s | not poplar-opt --poplar-plan=workspace-bytes=0 --describe-program 2>&1 | FileCheck %s --check-prefix=FACT

// Functions are named as they are; there are no lists of products yet.
// CHECK: exec.program <"PoplarProgram", {adamw = @[[ADAMW:[a-z0-9_]+]], buckets = [#exec.record<"PoplarBucket", {
// CHECK-SAME: elements = 128 : i64
// CHECK-SAME: convert_working, decode, decoding_gemms, device_type = "host:x86-64"
// CHECK-SAME: gemms, gpu, ids = 0 : i64, infer = @infer,
// CHECK-SAME: model = #exec.record<"PoplarModel", {architecture = "toy", config = "{}"
// CHECK-SAME: vocab_size = 16 : i64
// CHECK-SAME: parameters = [#exec.record<"PoplarParameter", {
// CHECK-SAME: name = "wte.weight"
// CHECK-SAME: shape = array<i64: 16, 8, 1, 1>
// CHECK-SAME: pipeline,
// CHECK-SAME: precision = "bf16", prefill, ranks = [],
// CHECK-SAME: train = @train, train_last = @train,
// CHECK: exec.optimizer update @[[ADAMW]]

// A function is found by its role, whatever its name.
// ROLE: train = @learn, train_last = @learn,
// ROLE: exec.entry train @learn
// MISSING: error: has no function of role 'infer' (exec.entry): run --nn-differentiate before --plan-memory
// INPUT: error: role 'train' has to take ids, targets, keys and dloss

// --lower-program renames them, and adds the lists.
// LOWER: exec.program <"PoplarProgram", {adamw = @{{[a-z0-9_]+}}.body,
// LOWER-SAME: gemms = @poplar_products,
// LOWER-SAME: train = @train.step, train_last = @train.step,
// LOWER-NOT: exec.function
// LOWER: llvm.mlir.global internal constant @poplar_products

// UNPLANNED: error: has no planned model: it needs the attribute nn.model, and an exec.arena of --plan-memory
// FACT: error: nn.model: seq_len is missing, which the runtime needs

module attributes {nn.model = {architecture = "toy", objective = "causal", vocab_size = 16 : i64, seq_len = 4 : i64, num_parameters = 128 : i64}} {
  nn.parameter @wte.weight : tensor<16x8xf32> normal std 2.000000e-02
  func.func private @embed(%ids: tensor<?x4xi32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
    %0 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    return %0 : tensor<?x4x8xf32>
  }
  func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<16x8xf32> {nn.parameter}) -> tensor<?x4x16xf32> attributes {nn.unit} {
    %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
    return %0 : tensor<?x4x16xf32>
  }
  func.func private @loss(%x: tensor<?x4x16xf32>, %t: tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit} {
    %loss, %lse = nn.cross_entropy %x, %t : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
    return %loss : tensor<?x4xf32>
  }
  func.func @model(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>) -> tensor<?x4xf32> {
    %w = nn.get_parameter @wte.weight : tensor<16x8xf32>
    %x = func.call @embed(%ids, %w) : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
    %logits = func.call @head(%x, %w) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
    %loss = func.call @loss(%logits, %targets) : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
    return %loss : tensor<?x4xf32>
  }
}

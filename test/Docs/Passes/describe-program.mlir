// RUN: poplar-opt %s --poplar-plan="workspace-bytes=0" --describe-program="cpu=x86-64" | FileCheck %s

// What the runtime has to know of a program: a record for each struct of the ABI.
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

// The result:
//
// CHECK: exec.program <"PoplarProgram", {
// CHECK-SAME: evaluate = @evaluate
// CHECK-SAME: model = #exec.record<"PoplarModel"
// CHECK-SAME: name = "wte.weight"
// CHECK-SAME: train = @train

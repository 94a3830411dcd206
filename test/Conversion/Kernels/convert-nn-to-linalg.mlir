// RUN: poplar-opt %s --convert-nn-to-linalg --split-input-file | FileCheck %s

// The iteration spaces and operands are what --form-kernels relies on; the
// arithmetic is tested by training against PyTorch (test/Integration/Families).

// CHECK-DAG: #[[$BTD:.+]] = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-DAG: #[[$BT:.+]] = affine_map<(d0, d1, d2) -> (d0, d1)>

// CHECK-LABEL: func @embedding
// CHECK-SAME: %[[IDS:.+]]: tensor<?x4xi32>, %[[TABLE:.+]]: tensor<16x8xf32>
func.func @embedding(%ids: tensor<?x4xi32>, %table: tensor<16x8xf32>) -> tensor<?x4x8xf32> {
  // CHECK: %[[B:.+]] = tensor.dim %[[IDS]], %{{.+}}
  // CHECK: %[[INIT:.+]] = tensor.empty(%[[B]]) : tensor<?x4x8xf32>
  // CHECK: linalg.generic {indexing_maps = [#[[$BT]], #[[$BTD]]], iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[IDS]] : tensor<?x4xi32>) outs(%[[INIT]]
  // CHECK: tensor.extract %[[TABLE]]
  %0 = nn.embedding %ids, %table : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// CHECK-LABEL: func @position_embedding
func.func @position_embedding(%x: tensor<?x4x8xf32>, %table: tensor<16x8xf32>, %types: tensor<2x8xf32>) -> tensor<?x4x8xf32> {
  // CHECK: linalg.generic
  // CHECK: tensor.extract %{{.+}}[%{{.+}}, %{{.+}}] : tensor<16x8xf32>
  %0 = nn.position_embedding %x, %table : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // CHECK: linalg.generic
  // CHECK: %[[ZERO:.+]] = arith.constant 0 : index
  // CHECK: tensor.extract %{{.+}}[%[[ZERO]], %{{.+}}] : tensor<2x8xf32>
  %1 = nn.position_embedding %0, %types constant_row : (tensor<?x4x8xf32>, tensor<2x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// -----

// CHECK-DAG: #[[$TD:.+]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[$WRAP:.+]] = affine_map<(d0, d1, d2) -> (d1 mod 16, d2)>
// CHECK-DAG: #[[$ROW0:.+]] = affine_map<(d0, d1, d2) -> (0, d2)>

// CHECK-LABEL: func @position_embedding_grad
// CHECK-SAME: %[[DY:.+]]: tensor<?x4x8xbf16>, %[[A:.+]]: tensor<4x8xf32>, %[[B:.+]]: tensor<16x8xf32>, %[[C:.+]]: tensor<2x8xf32>
func.func @position_embedding_grad(%dy: tensor<?x4x8xbf16>, %a: tensor<4x8xf32>, %b: tensor<16x8xf32>, %c: tensor<2x8xf32>)
    -> (tensor<4x8xf32>, tensor<16x8xf32>, tensor<2x8xf32>) {
  // CHECK: linalg.generic {indexing_maps = [#{{.+}}, #[[$TD]]], iterator_types = ["reduction", "parallel", "parallel"]} ins(%[[DY]] : tensor<?x4x8xbf16>) outs(%[[A]]
  %0 = nn.position_embedding_grad %dy into %a : (tensor<?x4x8xbf16>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // A table longer than the sequence.
  // CHECK: linalg.generic {indexing_maps = [#{{.+}}, #[[$WRAP]]], iterator_types = ["reduction", "parallel", "parallel"]} ins(%[[DY]] : tensor<?x4x8xbf16>) outs(%[[B]]
  %1 = nn.position_embedding_grad %dy into %b : (tensor<?x4x8xbf16>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // CHECK: linalg.generic {indexing_maps = [#{{.+}}, #[[$ROW0]]], iterator_types = ["reduction", "reduction", "parallel"]} ins(%[[DY]] : tensor<?x4x8xbf16>) outs(%[[C]]
  %2 = nn.position_embedding_grad %dy into %c constant_row : (tensor<?x4x8xbf16>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<16x8xf32>, tensor<2x8xf32>
}

// -----

// CHECK-LABEL: func @rope
// CHECK-SAME: %[[X:.+]]: tensor<?x2x8xf32>
func.func @rope(%x: tensor<?x2x8xf32>) -> tensor<?x2x8xf32> {
  // CHECK-DAG: %[[COS:.+]] = arith.constant dense<{{.*}}[1.000000e+00, 1.000000e+00], [0.540302277, 0.999949991]]> : tensor<2x2xf32>
  // CHECK-DAG: %[[SIN:.+]] = arith.constant dense<{{.*}}[0.000000e+00, 0.000000e+00], [0.841470957, 0.00999983306]]> : tensor<2x2xf32>
  // CHECK: linalg.generic
  // CHECK-SAME: ins(%[[X]]
  // CHECK: tensor.extract %[[X]]
  // CHECK: %[[C:.+]] = tensor.extract %[[COS]]
  // CHECK: %[[S:.+]] = tensor.extract %[[SIN]]
  // CHECK: %[[NEG:.+]] = arith.negf %[[S]]
  // CHECK: arith.select %{{.+}}, %[[NEG]], %[[S]]
  %0 = nn.rope %x head_dim 4 inv_freq [1.0, 0.01] : tensor<?x2x8xf32>
  // CHECK: linalg.generic
  // CHECK: %[[NEG:.+]] = arith.negf %[[S:.+]] :
  // CHECK: arith.select %{{.+}}, %[[S]], %[[NEG]]
  %1 = nn.rope %0 inverse head_dim 4 inv_freq [1.0, 0.01] : tensor<?x2x8xf32>
  return %1 : tensor<?x2x8xf32>
}

// -----

// CHECK-LABEL: func @positions
// CHECK-SAME: %[[X:.+]]: tensor<?x2x8xf32>, %[[TABLE:.+]]: tensor<16x8xf32>, %[[P:.+]]: tensor<?x2xi32>
func.func @positions(%x: tensor<?x2x8xf32>, %table: tensor<16x8xf32>, %p: tensor<?x2xi32>) -> tensor<?x2x8xf32> {
  // CHECK: linalg.generic
  // CHECK-SAME: ins(%[[X]], %[[P]] : tensor<?x2x8xf32>, tensor<?x2xi32>)
  // CHECK: %[[ROW:.+]] = arith.index_cast %{{.+}} : i32 to index
  // CHECK: tensor.extract %[[TABLE]][%[[ROW]], %{{.+}}]
  %0 = nn.position_embedding %x, %table at %p : (tensor<?x2x8xf32>, tensor<16x8xf32>, tensor<?x2xi32>) -> tensor<?x2x8xf32>
  // CHECK: linalg.generic
  // CHECK: %[[ROW:.+]] = arith.index_cast %{{.+}} : i32 to index
  // CHECK: tensor.extract %{{.+}}[%[[ROW]], %[[COLUMN:.+]]] : tensor<2x2xf32>
  // CHECK: tensor.extract %{{.+}}[%[[ROW]], %[[COLUMN]]] : tensor<2x2xf32>
  %1 = nn.rope %0 at %p length 2 head_dim 4 inv_freq [1.0, 0.01] : tensor<?x2x8xf32>, tensor<?x2xi32>
  return %1 : tensor<?x2x8xf32>
}

// -----

// CHECK-LABEL: func @layer_norm
func.func @layer_norm(%x: tensor<?x4x8xbf16>, %g: tensor<8xbf16>, %b: tensor<8xbf16>) -> (tensor<?x4x8xbf16>, tensor<?x4xf32>, tensor<?x4xf32>) {
  // CHECK: linalg.fill ins(%{{.+}} : f32) outs(%{{.+}} : tensor<?x4xf32>)
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK: arith.extf
  // CHECK: arith.addf %{{.+}}, %{{.+}} fastmath<reassoc>
  // CHECK: %[[MEAN:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]{{.*}}%[[MEAN]]
  // CHECK: %[[RSTD:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: %[[Y:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "parallel"]
  // CHECK: arith.truncf
  // CHECK: return %[[Y]], %[[MEAN]], %[[RSTD]]
  %0:3 = nn.layer_norm %x, %g, %b eps 1.0e-5 : (tensor<?x4x8xbf16>, tensor<8xbf16>, tensor<8xbf16>) -> (tensor<?x4x8xbf16>, tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0, %0#1, %0#2 : tensor<?x4x8xbf16>, tensor<?x4xf32>, tensor<?x4xf32>
}

// -----

// What is added to gamma is 1; nothing is added to the product.
// CHECK-LABEL: func @layer_norm_offset
func.func @layer_norm_offset(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) {
  // CHECK: iterator_types = ["parallel", "parallel", "parallel"]
  // CHECK: arith.subf
  // CHECK: arith.mulf
  // CHECK: %[[GAMMA:.+]] = arith.addf %{{.+}}, %{{.+}}
  // CHECK: %[[Y:.+]] = arith.mulf %{{.+}}, %[[GAMMA]]
  // CHECK-NEXT: linalg.yield %[[Y]]
  %0:3 = nn.layer_norm %x, %g eps 1.0e-5 offset 1.0 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  return %0#0, %0#1, %0#2 : tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>
}

// -----

// CHECK-LABEL: func @column_sums
// CHECK-SAME: %[[ACC:[^:]+]]: tensor<8xf32>
func.func @column_sums(%acc: tensor<8xf32>, %dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>, %mean: tensor<?x4xf32>, %rstd: tensor<?x4xf32>) -> tensor<8xf32> {
  // CHECK: %[[A:.+]] = linalg.generic {{.*}}iterator_types = ["reduction", "reduction", "parallel"]{{.*}} outs(%[[ACC]]
  %0 = nn.sum_rows %dy into %acc : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: %[[B:.+]] = linalg.generic {{.*}}iterator_types = ["reduction", "reduction", "parallel"]{{.*}} outs(%[[A]]
  // CHECK: arith.subf
  %1 = nn.norm_grad_gamma %dy, %x rstd %rstd mean %mean into %0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  // CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "reduction", "parallel"]{{.*}} outs(%[[B]]
  // CHECK-NOT: arith.subf
  %2 = nn.norm_grad_gamma %dy, %x rstd %rstd into %1 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// CHECK-LABEL: func @dropout
func.func @dropout(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  // CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<?x2xi32>)
  // CHECK: arith.constant 4354685564936845354 : i64
  // CHECK: arith.trunci
  %0 = nn.fold_key %keys, 1 : tensor<?x2xi32>
  // op_id * 2^40 + 1, and ceil(0.1 * 2^24).
  // CHECK: linalg.generic
  // CHECK: arith.constant 3298534883329 : i64
  // CHECK: arith.constant 1677722 : i64
  // CHECK: arith.cmpi uge
  %1 = nn.dropout %x keys %0 p 0.1 op_id 3 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %1 : tensor<?x4x8xf32>
}

// -----

// CHECK-LABEL: func @noise
func.func @noise(%x: tensor<?x4x8xf32>, %keys: tensor<?x2xi32>) -> tensor<?x4x8xf32> {
  // CHECK: linalg.generic
  // CHECK: arith.constant 3298534883329 : i64
  // CHECK: arith.uitofp
  // CHECK-DAG: arith.constant 1.1920929E-7 : f32
  // CHECK-DAG: arith.constant 1.000000e+00 : f32
  // CHECK: arith.subf
  // CHECK: arith.constant 2.500000e-01 : f32
  // CHECK: arith.addf
  %0 = nn.noise %x keys %keys magnitude 0.25 op_id 3 : tensor<?x4x8xf32>, tensor<?x2xi32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// CHECK-LABEL: func @cross_entropy
func.func @cross_entropy(%logits: tensor<?x4x16xf32>, %targets: tensor<?x4xi32>, %dloss: tensor<?x4xf32>) -> (tensor<?x4xf32>, tensor<?x4x16xf32>) {
  // CHECK: arith.constant 0xFF800000 : f32
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK: arith.maximumf
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
  // CHECK: math.exp
  // CHECK: %[[L:.+]]:2 = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: tensor.extract
  %0:2 = nn.cross_entropy %logits, %targets : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)
  // CHECK: linalg.generic {{.*}}%[[L]]#1
  %1 = nn.cross_entropy_grad %logits, %targets lse %0#1 dloss %dloss : (tensor<?x4x16xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x16xf32>
  return %0#0, %1 : tensor<?x4xf32>, tensor<?x4x16xf32>
}

// -----

// The optimizer updates its state in place and rounds as written.
// CHECK-LABEL: func @adamw
// CHECK-SAME: %[[P:[^:]+]]: tensor<?xf32>, %[[G:[^:]+]]: tensor<?xf32>, %[[M:[^:]+]]: tensor<?xf32>, %[[V:[^:]+]]: tensor<?xf32>
func.func @adamw(%p: tensor<?xf32>, %g: tensor<?xf32>, %m: tensor<?xf32>, %v: tensor<?xf32>, %h: tensor<8xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel"]{{.*}} ins(%[[G]] : tensor<?xf32>) outs(%[[P]], %[[M]], %[[V]]
  // CHECK-NOT: fastmath
  %0:3 = nn.adamw %p, %g, %m, %v hyper %h : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<8xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
  return %0#0, %0#1, %0#2 : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

// -----

// Elementwise ops of any rank, and what is left to the runtime's kernels.
// CHECK-LABEL: func @elementwise
func.func @elementwise(%x: tensor<?x4x8xf16>, %w: tensor<8x8xf32>, %acc: tensor<8x8xf32>, %wh: tensor<8x8xf16>) -> (tensor<?x4x8xf16>, tensor<8x8xf32>) {
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]
  // CHECK: arith.truncf {{.*}} : f32 to bf16
  %0 = nn.cast %w : tensor<8x8xf32> to tensor<8x8xbf16>
  // CHECK: math.erf
  %1 = nn.gelu %x form erf : tensor<?x4x8xf16>
  // CHECK: math.tanh
  %2 = nn.gelu_grad %1, %x form tanh : tensor<?x4x8xf16>
  // CHECK: math.exp
  %3 = nn.silu %2 : tensor<?x4x8xf16>
  // CHECK: arith.maximumf
  %4 = nn.relu %3 : tensor<?x4x8xf16>
  // CHECK: arith.cmpf ogt
  %5 = nn.relu_grad %4, %x : tensor<?x4x8xf16>
  // CHECK: arith.addf
  %6 = nn.add %5, %4 : tensor<?x4x8xf16>
  // CHECK: arith.mulf
  %7 = nn.mul %6, %5 : tensor<?x4x8xf16>
  // CHECK: nn.linear
  %8 = nn.linear %7, %wh : (tensor<?x4x8xf16>, tensor<8x8xf16>) -> tensor<?x4x8xf16>
  // CHECK: nn.linear_grad_weight
  %9 = nn.linear_grad_weight %8, %x into %acc : (tensor<?x4x8xf16>, tensor<?x4x8xf16>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %8, %9 : tensor<?x4x8xf16>, tensor<8x8xf32>
}

// The columns of a sample are added up over its tokens.
// CHECK-LABEL: func @balance
func.func @balance(%logits: tensor<?x4x3xf32>, %experts: tensor<?x8xi32>, %sums: tensor<?x4x6xf32>, %loss: tensor<?x4xf32>, %targets: tensor<?x4xi32>) -> tensor<?x4xf32> {
  // CHECK: tensor.extract %{{.*}} : tensor<?x8xi32>
  // CHECK: tensor.extract %{{.*}} : tensor<?x8xi32>
  // CHECK: math.exp
  // CHECK-NEXT: arith.divf
  %more = nn.count_experts %sums, %logits, %experts : (tensor<?x4x6xf32>, tensor<?x4x3xf32>, tensor<?x8xi32>) -> tensor<?x4x6xf32>
  // CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel"]} ins({{.*}}) outs({{.*}} : tensor<?x6xf32>)
  // Padding has the target -2.
  // CHECK: arith.constant -1 : i32
  // CHECK-NEXT: arith.cmpi sge
  %all = nn.balance_loss %loss, %targets, %more factor 1.0e-02 : tensor<?x4xf32>, tensor<?x4xi32>, tensor<?x4x6xf32>
  return %all : tensor<?x4xf32>
}

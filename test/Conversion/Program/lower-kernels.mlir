// RUN: poplar-opt %s --lower-kernels --split-input-file | FileCheck %s

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// Rows: pointers first, arguments before results; one loop over the range of
// rows, in which each op runs over the columns. The sum of a row stays in
// registers and in one f32 on the stack. Only the loop without a reduction may
// say that its iterations are independent, and all its accesses must belong to
// its group.

// CHECK-DAG: #[[$GROUP:.+]] = #llvm.access_group
// CHECK-DAG: #[[$LOOP:.+]] = #llvm.loop_annotation<parallelAccesses = #[[$GROUP]]>
// CHECK-LABEL: func @norm.body
// CHECK-SAME: %[[ARGS:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64, %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) {
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[X:.+]] = llvm.load %[[SLOT]]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARGS]][1]
// CHECK: %[[G:.+]] = llvm.load %[[SLOT]]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARGS]][2]
// CHECK: %[[Y:.+]] = llvm.load %[[SLOT]]
// CHECK: %[[ZERO:.+]] = arith.constant 0.0
// CHECK: %[[ROW:.+]] = llvm.alloca %{{.+}} x f32
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK:   %[[SUM:.+]] = scf.for {{.*}} iter_args(%[[ACC:.+]] = %[[ZERO]]) -> (f32)
// CHECK:     llvm.getelementptr inbounds %[[X]]
// CHECK:     %[[V:.+]] = llvm.load %{{[0-9]+}} : !llvm.ptr -> f32
// CHECK:     %[[NEXT:.+]] = arith.addf %[[V]], %[[ACC]]
// CHECK:     scf.yield %[[NEXT]]
// CHECK:   llvm.store %[[SUM]], %[[ROW]] : f32
// CHECK:   %[[M:.+]] = llvm.load %[[ROW]] : !llvm.ptr -> f32
// CHECK:   scf.for
// CHECK:     %[[A:.+]] = llvm.load %{{.+}} {access_groups = [#[[$GROUP]]]}
// CHECK:     llvm.getelementptr inbounds %[[G]]
// CHECK:     llvm.load %{{.+}} {access_groups = [#[[$GROUP]]]}
// CHECK:     arith.mulf %[[A]], %[[M]]
// CHECK:     llvm.getelementptr inbounds %[[Y]]
// CHECK:     llvm.store %{{.+}} {access_groups = [#[[$GROUP]]]}
// CHECK:   } {loop_annotation = #[[$LOOP]]}

// The kernel stays, for those who call it.
// CHECK: exec.kernel @norm({{.*}}) -> tensor<?x4x8xf32> rows 4 per_sample reuse [array<i64: 0>] {
exec.kernel @norm(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) -> tensor<?x4x8xf32>
    rows 4 per_sample reuse [array<i64: 0>] {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e2 = tensor.empty(%b) : tensor<?x4xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e2 : tensor<?x4xf32>) -> tensor<?x4xf32>
  %sum = linalg.generic {indexing_maps = [#btd, #bt], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<?x4x8xf32>) outs(%f : tensor<?x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %a, %acc : f32
    linalg.yield %s : f32
  } -> tensor<?x4xf32>
  %e3 = tensor.empty(%b) : tensor<?x4x8xf32>
  %y = linalg.generic {indexing_maps = [#btd, #bt, #d, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %sum, %g : tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<8xf32>) outs(%e3 : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %m: f32, %w: f32, %o: f32):
    %s = arith.mulf %a, %m : f32
    %t = arith.mulf %s, %w : f32
    linalg.yield %t : f32
  } -> tensor<?x4x8xf32>
  exec.yield %y : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// Columns: over all rows of the batch, each time over the range of columns. The
// result is in place: two pointers, and the sum is loaded and stored.

// CHECK-LABEL: func @columns.body
// CHECK-SAME: %[[ARGS:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64, %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) {
// CHECK: llvm.getelementptr %[[ARGS]][0]
// CHECK: %[[SLOT:.+]] = llvm.getelementptr %[[ARGS]][1]
// CHECK: %[[ACC:.+]] = llvm.load %[[SLOT]]
// CHECK-NOT: llvm.getelementptr %[[ARGS]]
// CHECK: %[[T:.+]] = arith.constant 4 : i64
// CHECK: %[[ROWS:.+]] = arith.muli %[[BATCH]], %[[T]]
// CHECK: scf.for %{{.+}} = %{{.+}} to %[[ROWS]]
// CHECK:   scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK:     %[[FROM:.+]] = llvm.getelementptr inbounds %[[ACC]]
// CHECK:     llvm.load %[[FROM]]
// CHECK:     arith.addf
// CHECK:     %[[TO:.+]] = llvm.getelementptr inbounds %[[ACC]]
// CHECK:     llvm.store %{{.+}}, %[[TO]]
exec.kernel @columns(%dy: tensor<?x4x8xf32>, %b: tensor<8xf32>) -> tensor<8xf32>
    columns 8 in_place [1] {
  %0 = linalg.generic {indexing_maps = [#btd, #d], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy : tensor<?x4x8xf32>) outs(%b : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  exec.yield %0 : tensor<8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#wrap = affine_map<(d0, d1, d2) -> (d1 mod 16, d2)>

// Positions: the range is of positions, samples inside. `t mod 16` with four
// positions is t.

// CHECK-LABEL: func @positions.body
// CHECK-SAME: %[[ARGS:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64, %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) {
// CHECK: scf.for %[[POSITION:.+]] = %[[BEGIN]] to %[[END]]
// CHECK:   scf.for %{{.+}} = %{{.+}} to %[[BATCH]]
// CHECK-NOT: rem
// CHECK:     scf.for
// CHECK:       %[[D:.+]] = arith.constant 8 : i64
// CHECK:       arith.muli %[[POSITION]], %{{.+}} : i64
exec.kernel @positions(%dy: tensor<?x4x8xf32>, %p: tensor<16x8xf32>) -> tensor<16x8xf32>
    positions 4 in_place [1] {
  %0 = linalg.generic {indexing_maps = [#btd, #wrap], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%dy : tensor<?x4x8xf32>) outs(%p : tensor<16x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<16x8xf32>
  exec.yield %0 : tensor<16x8xf32>
}

// -----

#n = affine_map<(d0) -> (d0)>

// Flat: one loop over the range, the updates in place.

// CHECK-LABEL: func @flat.body
// CHECK-SAME: %[[ARGS:[^:]+]]: !llvm.ptr, %[[BATCH:[^:]+]]: i64, %[[BEGIN:[^:]+]]: i64, %[[END:[^:]+]]: i64) {
// CHECK: scf.for %[[I:.+]] = %[[BEGIN]] to %[[END]]
// CHECK:   llvm.getelementptr inbounds %{{.+}}[%[[I]]]
// CHECK:   llvm.store
// CHECK: return
exec.kernel @flat(%p: tensor<?xf32>, %g: tensor<?xf32>) -> tensor<?xf32>
    flat 1 per_sample in_place [0] {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%b) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]}
      ins(%p, %g : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.subf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  exec.yield %0 : tensor<?xf32>
}

// -----

#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Look-ups: tables that are constants become globals, elements of arguments are
// read at computed places.

// CHECK: llvm.mlir.global internal constant @embed.constant(dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// CHECK-LABEL: func @embed.body
// CHECK: %[[TABLE:.+]] = llvm.load
// CHECK: %[[CST:.+]] = llvm.mlir.addressof @embed.constant
// CHECK: scf.for
// CHECK:   %[[ID:.+]] = llvm.load %{{.+}} : !llvm.ptr -> i32
// CHECK:   scf.for
// CHECK:     %[[INDEX:.+]] = arith.index_cast %[[ID]] : i32 to index
// CHECK:     llvm.getelementptr inbounds %{{.+}}
// CHECK:     llvm.getelementptr inbounds %[[CST]]
exec.kernel @embed(%table: tensor<16x8xf32>, %ids: tensor<?x4xi32>) -> tensor<?x4x8xf32>
    rows 4 per_sample {
  %c0 = arith.constant 0 : index
  %scale = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %b = tensor.dim %ids, %c0 : tensor<?x4xi32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#bt, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids : tensor<?x4xi32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%id: i32, %o: f32):
    %row = arith.index_cast %id : i32 to index
    %t = linalg.index 1 : index
    %column = linalg.index 2 : index
    %v = tensor.extract %table[%row, %column] : tensor<16x8xf32>
    %s = tensor.extract %scale[%t] : tensor<4xf32>
    %r = arith.mulf %v, %s : f32
    linalg.yield %r : f32
  } -> tensor<?x4x8xf32>
  exec.yield %0 : tensor<?x4x8xf32>
}

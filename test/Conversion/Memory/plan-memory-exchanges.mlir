// RUN: poplar-opt %s --plan-memory=workspace-bytes=0 --exec-verify | FileCheck %s

// The second of two ranks that share a unit has the last three of eight tokens. Its
// product of what is gathered begins with those, and the one that is scattered ends
// with them.

exec.kernel @sum(%a0: tensor<?x3x8xf32>, %a1: tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
    rows 3 per_sample {
  exec.yield %a0 : tensor<?x3x8xf32>
}

// CHECK-LABEL: exec.function unit @block(
// CHECK-SAME: %[[MINE:[^:]+]]: memref<?x3x8xf32>, %[[UP:[^:]+]]: memref<4x8xf32>, %[[DOWN:[^:]+]]: memref<8x4xf32>
// CHECK: %[[ALL:.+]] = exec.buffer scratch at {{.*}} : memref<?x8x8xf32>
// CHECK: %[[R:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 %[[MINE]] into %[[ALL]]
// CHECK: %[[O:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 0 %[[MINE]] into %[[ALL]]
// CHECK: exec.wait_exchange %[[O]]
// CHECK: %[[OWN:.+]] = exec.rows %[[ALL]] from 5 : memref<?x8x8xf32> to memref<?x3x8xf32>
// CHECK: exec.product %[[OWN]], %[[UP]] into %{{.*}} trans_b : (memref<?x3x8xf32>, memref<4x8xf32>, memref<?x3x4xf32>)
// CHECK: exec.wait_exchange %[[R]]
// CHECK: %[[OTHERS:.+]] = exec.rows %[[ALL]] from 0 : memref<?x8x8xf32> to memref<?x5x8xf32>
// CHECK: exec.product %[[OTHERS]], %[[UP]] into

// CHECK: exec.product %{{.*}}, %[[DOWN]] into %{{.*}} trans_b : (memref<?x5x4xf32>, memref<8x4xf32>, memref<?x5x8xf32>)
// CHECK: %[[R:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1
// CHECK: exec.product %{{.*}}, %[[DOWN]] into %{{.*}} trans_b : (memref<?x3x4xf32>, memref<8x4xf32>, memref<?x3x8xf32>)
// CHECK: %[[O:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 0
// CHECK: exec.wait_exchange %[[R]]
// CHECK: exec.wait_exchange %[[O]]
// CHECK: exec.dispatch @sum
func.func @block(%mine: tensor<?x3x8xf32>, %up: tensor<4x8xf32> {nn.parameter}, %down: tensor<8x4xf32> {nn.parameter}) -> tensor<?x3x8xf32> attributes {nn.unit} {
  %all = zero.start_exchange gather_tokens %mine bounds [0, 5, 8] position 1 : tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  %0 = nn.linear %all, %up : (tensor<?x8x8xf32>, tensor<4x8xf32>) -> tensor<?x8x4xf32>
  %1 = zero.wait_exchange %all of %mine : tensor<?x8x8xf32> of tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  %2 = nn.linear %0, %down : (tensor<?x8x4xf32>, tensor<8x4xf32>) -> tensor<?x8x8xf32>
  %3:2 = zero.start_exchange scatter_tokens %2 keep %0 bounds [0, 5, 8] position 1 : tensor<?x8x8xf32>, tensor<?x8x4xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %4:2 = zero.wait_exchange %3#0, %3#1 of %2 : tensor<?x3x8xf32>, tensor<?x3x8xf32> of tensor<?x8x8xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %5 = exec.dispatch @sum(%4#0, %4#1) : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  return %5 : tensor<?x3x8xf32>
}

// In two pieces, the others' rows are computed and given away piece by piece: those
// that are there, while the rest is on its way.

// CHECK-LABEL: exec.function unit @pieces(
// CHECK: %[[R0:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2
// CHECK: %[[R1:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2
// CHECK: %[[O:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 0 %
// CHECK: exec.wait_exchange %[[O]]
// CHECK: exec.product %{{.*}} : (memref<?x3x8xf32>, memref<4x8xf32>, memref<?x3x4xf32>)
// CHECK: exec.wait_exchange %[[R0]]
// CHECK: exec.rows %{{.*}} from 0 : memref<?x8x8xf32> to memref<?x2x8xf32>
// CHECK: exec.product %{{.*}} : (memref<?x2x8xf32>, memref<4x8xf32>, memref<?x2x4xf32>)
// CHECK: exec.wait_exchange %[[R1]]
// CHECK: exec.rows %{{.*}} from 2 : memref<?x8x8xf32> to memref<?x3x8xf32>
// CHECK: exec.product %{{.*}} : (memref<?x3x8xf32>, memref<4x8xf32>, memref<?x3x4xf32>)

// CHECK: exec.product %{{.*}} : (memref<?x2x4xf32>, memref<8x4xf32>, memref<?x2x8xf32>)
// CHECK: %[[R0:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2
// CHECK: exec.product %{{.*}} : (memref<?x3x4xf32>, memref<8x4xf32>, memref<?x3x8xf32>)
// CHECK: %[[R1:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2
// CHECK: exec.product %{{.*}} : (memref<?x3x4xf32>, memref<8x4xf32>, memref<?x3x8xf32>)
// CHECK: %[[O:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 0 %
// CHECK: exec.wait_exchange %[[R0]]
// CHECK: exec.wait_exchange %[[R1]]
// CHECK: exec.wait_exchange %[[O]]
func.func @pieces(%mine: tensor<?x3x8xf32>, %up: tensor<4x8xf32> {nn.parameter}, %down: tensor<8x4xf32> {nn.parameter}) -> tensor<?x3x8xf32> attributes {nn.unit} {
  %all = zero.start_exchange gather_tokens %mine bounds [0, 5, 8] position 1 pieces 2 : tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  %0 = nn.linear %all, %up : (tensor<?x8x8xf32>, tensor<4x8xf32>) -> tensor<?x8x4xf32>
  %1 = zero.wait_exchange %all of %mine : tensor<?x8x8xf32> of tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  %2 = nn.linear %0, %down : (tensor<?x8x4xf32>, tensor<8x4xf32>) -> tensor<?x8x8xf32>
  %3:2 = zero.start_exchange scatter_tokens %2 keep %0 bounds [0, 5, 8] position 1 pieces 2 : tensor<?x8x8xf32>, tensor<?x8x4xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %4:2 = zero.wait_exchange %3#0, %3#1 of %2 : tensor<?x3x8xf32>, tensor<?x3x8xf32> of tensor<?x8x8xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %5 = exec.dispatch @sum(%4#0, %4#1) : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  return %5 : tensor<?x3x8xf32>
}

// Where no product can be cut, the same pieces travel: other ranks may cut theirs.

// CHECK-LABEL: exec.function unit @whole(
// CHECK: %[[R0:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2
// CHECK: %[[R1:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2
// CHECK: %[[O:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 0 %
// CHECK: exec.wait_exchange %[[R0]]
// CHECK: exec.wait_exchange %[[R1]]
// CHECK: exec.wait_exchange %[[O]]
func.func @whole(%x: tensor<?x8x8xf32>) -> tensor<?x3x8xf32> attributes {nn.unit} {
  %3:2 = zero.start_exchange scatter_tokens %x bounds [0, 5, 8] position 1 pieces 2 : tensor<?x8x8xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %4:2 = zero.wait_exchange %3#0, %3#1 of %x : tensor<?x3x8xf32>, tensor<?x3x8xf32> of tensor<?x8x8xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %5 = exec.dispatch @sum(%4#0, %4#1) : (tensor<?x3x8xf32>, tensor<?x3x8xf32>) -> tensor<?x3x8xf32>
  return %5 : tensor<?x3x8xf32>
}

// A kernel that makes of what is scattered what is gathered next, chained to it,
// runs for the tokens of each piece. All that is read or written meanwhile is
// alive: the residual is not taken over. Positions are those of the whole.

exec.kernel @add(%a0: tensor<?x3x8xf32>, %a1: tensor<?x3x8xf32>, %x: tensor<?x3x8xf32>, %scale: tensor<8xf32>) -> tensor<?x3x8xf32>
    rows 3 per_sample reuse [array<i64: 2>] {
  %c0 = arith.constant 0 : index
  %batch = tensor.dim %x, %c0 : tensor<?x3x8xf32>
  %empty = tensor.empty(%batch) : tensor<?x3x8xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(b, t, d) -> (b, t, d)>, affine_map<(b, t, d) -> (b, t, d)>, affine_map<(b, t, d) -> (b, t, d)>, affine_map<(b, t, d) -> (d)>, affine_map<(b, t, d) -> (b, t, d)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a0, %a1, %x, %scale : tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32>) outs(%empty : tensor<?x3x8xf32>) {
  ^bb0(%p: f32, %q: f32, %r: f32, %s: f32, %out: f32):
    %t = linalg.index 1 : index
    %i = arith.index_cast %t : index to i32
    %f = arith.sitofp %i : i32 to f32
    %0 = arith.addf %p, %q : f32
    %1 = arith.addf %0, %r : f32
    %2 = arith.mulf %1, %s : f32
    %3 = arith.addf %2, %f : f32
    linalg.yield %3 : f32
  } -> tensor<?x3x8xf32>
  exec.yield %y : tensor<?x3x8xf32>
}

// CHECK-NOT: exec.kernel @add(
// CHECK: exec.kernel @add_rows_2_from_1(%{{.*}}: tensor<?x2x8xf32>, %{{.*}}: tensor<?x2x8xf32>, %{{.*}}: tensor<?x2x8xf32>, %{{.*}}: tensor<8xf32>) -> tensor<?x2x8xf32> rows 2 per_sample
// CHECK: arith.remui %{{.*}}, %c3
// CHECK-LABEL: exec.function unit @chained(
// CHECK-SAME: memref<?x8x4xf32>, %[[X:[^:]+]]: memref<?x3x8xf32>
// CHECK-DAG: %[[S0:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2
// CHECK-DAG: %[[S1:.+]] = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2
// CHECK: exec.wait_exchange %[[S0]]
// CHECK: exec.rows %[[X]] from 0 : memref<?x3x8xf32> to memref<?x1x8xf32>
// CHECK: exec.dispatch @add_rows_1_from_0(
// CHECK: %[[G0:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2
// CHECK: %[[O:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 0 piece 0 of 2
// CHECK: exec.wait_exchange %[[O]]
// CHECK: exec.rows %{{.*}} from 5 : memref<?x8x8xf32> to memref<?x1x8xf32>
// CHECK: exec.product %{{.*}} : (memref<?x1x8xf32>, memref<4x8xf32>, memref<?x1x4xf32>)
// CHECK: exec.wait_exchange %[[S1]]
// CHECK: exec.dispatch @add_rows_2_from_1(
// CHECK: %[[G1:.+]] = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2
// CHECK: exec.product %{{.*}} : (memref<?x2x8xf32>, memref<4x8xf32>, memref<?x2x4xf32>)
// CHECK: exec.wait_exchange %[[G0]]
// CHECK: exec.product %{{.*}} : (memref<?x2x8xf32>, memref<4x8xf32>, memref<?x2x4xf32>)
// CHECK: exec.wait_exchange %[[G1]]
// CHECK: exec.product %{{.*}} : (memref<?x3x8xf32>, memref<4x8xf32>, memref<?x3x4xf32>)
// CHECK: exec.end

func.func @chained(%a: tensor<?x8x4xf32>, %x: tensor<?x3x8xf32>, %scale: tensor<8xf32> {nn.parameter}, %up: tensor<4x8xf32> {nn.parameter}, %down: tensor<8x4xf32> {nn.parameter}) -> tensor<?x8x4xf32> attributes {nn.unit} {
  %2 = nn.linear %a, %down : (tensor<?x8x4xf32>, tensor<8x4xf32>) -> tensor<?x8x8xf32>
  %3:2 = zero.start_exchange scatter_tokens %2 keep %a bounds [0, 5, 8] position 1 pieces 2 : tensor<?x8x8xf32>, tensor<?x8x4xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %4:2 = zero.wait_exchange %3#0, %3#1 of %2 : tensor<?x3x8xf32>, tensor<?x3x8xf32> of tensor<?x8x8xf32> -> tensor<?x3x8xf32>, tensor<?x3x8xf32>
  %5 = exec.dispatch @add(%4#0, %4#1, %x, %scale) : (tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<?x3x8xf32>, tensor<8xf32>) -> tensor<?x3x8xf32>
  %all = zero.start_exchange gather_tokens %5 bounds [0, 5, 8] position 1 pieces 2 chained : tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  %6 = nn.linear %all, %up : (tensor<?x8x8xf32>, tensor<4x8xf32>) -> tensor<?x8x4xf32>
  %7 = zero.wait_exchange %all of %5 : tensor<?x8x8xf32> of tensor<?x3x8xf32> -> tensor<?x8x8xf32>
  return %6 : tensor<?x8x4xf32>
}

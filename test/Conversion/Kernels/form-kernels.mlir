// RUN: poplar-opt %s --form-kernels --split-input-file | FileCheck %s
// RUN: poplar-opt %s --form-kernels --split-input-file --remarks-filter=form-kernels \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// A norm: a reduction over rows and the op that reads its result in the same
// row are one kernel. The sum stays inside, x may give its buffer to y, and what
// initialises goes in with its ops.

// CHECK-LABEL: func @rows
// CHECK-SAME: %[[X:[^:]+]]: tensor<?x4x8xf32>, %[[G:[^:]+]]: tensor<8xf32>
// CHECK-NEXT: %[[Y:.+]] = exec.dispatch @[[K:[a-z_0-9]+]](%[[X]], %[[G]])
// CHECK-NEXT: return %[[Y]]
// CHECK: exec.kernel @[[K]]
// CHECK-SAME: -> tensor<?x4x8xf32> rows 4 per_sample reuse [array<i64: 0>] {
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}}"reduction"]
// CHECK: %[[R:.+]] = linalg.generic
// CHECK: exec.yield %[[R]] : tensor<?x4x8xf32>
// REMARK: remark: [Passed] JoinsKernel | Category:form-kernels | Function=rows | Kernel=linalg.generic, Op=linalg.generic
// REMARK: remark: [Analysis] Kernel | Category:form-kernels | Function=rows | Arguments=2, Kernel=kernel_0, New=true, Ops=2, Results=1
func.func @rows(%x: tensor<?x4x8xf32>, %g: tensor<8xf32>) -> tensor<?x4x8xf32> {
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
  return %y : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Equal kernels are one function. The linear op stands between them: what comes
// after it cannot run before it, and it reads what comes before.

// CHECK-LABEL: func @equal
// CHECK: %[[A:.+]] = exec.dispatch @[[K:[a-z_0-9]+]](%{{.+}})
// CHECK: %[[L:.+]] = nn.linear %[[A]]
// CHECK: exec.dispatch @[[K]](%[[L]])
// CHECK: exec.kernel @[[K]]
// CHECK-NOT: exec.kernel
// REMARK: remark: [Analysis] Kernel | Category:form-kernels | Function=equal | Arguments=1, Kernel=kernel_0, New=true
// REMARK: remark: [Analysis] Kernel | Category:form-kernels | Function=equal | Arguments=1, Kernel=kernel_0, New=false
func.func @equal(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%1 : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// A group waits for nobody's operands: the second op reads what it needs of the
// first row by row, but also the result of the linear op, which reads the first.

// CHECK-LABEL: func @order
// CHECK: %[[A:.+]] = exec.dispatch @[[K0:[a-z_0-9]+]](%{{.+}})
// CHECK: %[[L:.+]] = nn.linear %[[A]]
// CHECK: exec.dispatch @[[K1:[a-z_0-9]+]](%[[A]], %[[L]])
// CHECK: exec.kernel @[[K0]]
// CHECK: exec.kernel @[[K1]]
// REMARK: remark: [Missed] BeginsKernel | Category:form-kernels | Function=order | {{.*}}Reason="it reads what is computed after the kernel"
func.func @order(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %1 = nn.linear %0, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %2 = linalg.generic {indexing_maps = [#btd, #btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0, %1 : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.mulf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %2 : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// A rotation reads other columns of its row by tensor.extract: that would be
// true of a buffer that holds one row, but the kernel only promises elements.
// So it is a kernel of its own, and may not take over the buffer it gathers from.

// CHECK-LABEL: func @gather
// CHECK: exec.dispatch @[[K0:[a-z_0-9]+]](
// CHECK: exec.dispatch @[[K1:[a-z_0-9]+]](
// CHECK: exec.kernel @[[K0]]({{.*}} reuse [array<i64: 0>] {
// CHECK: exec.kernel @[[K1]]
// CHECK-NOT: reuse
// REMARK: remark: [Missed] BeginsKernel | Category:form-kernels | Function=gather | {{.*}}Reason="it reads other rows of a result of the kernel"
func.func @gather(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %1 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %t = linalg.index 1 : index
    %j = arith.constant 7 : index
    %v = tensor.extract %0[%i, %t, %j] : tensor<?x4x8xf32>
    %s = arith.subf %a, %v : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#bt = affine_map<(d0, d1, d2) -> (d0, d1)>
#td = affine_map<(d0, d1, d2) -> (d1, d2)>
#d = affine_map<(d0, d1, d2) -> (d2)>

// Sums over rows go by columns, sums over samples by positions; both accumulate
// into their argument. The two by columns read the same dy and share a pass.

// CHECK-LABEL: func @accumulate
// CHECK-SAME: %[[DY:[^:]+]]: tensor<?x4x8xf32>, %[[B:[^:]+]]: tensor<8xf32>, %[[C:[^:]+]]: tensor<8xf32>, %[[P:[^:]+]]: tensor<4x8xf32>
// CHECK-NEXT: exec.dispatch @[[COLUMNS:[a-z_0-9]+]](%[[DY]], %[[B]], %[[C]])
// CHECK-NEXT: exec.dispatch @[[POSITIONS:[a-z_0-9]+]](%[[DY]], %[[P]])
// CHECK-NEXT: return
// CHECK: exec.kernel @[[COLUMNS]]
// CHECK-SAME: -> (tensor<8xf32>, tensor<8xf32>) columns 8 in_place [1, 2] {
// CHECK: exec.kernel @[[POSITIONS]]
// CHECK-SAME: -> tensor<4x8xf32> positions 4 in_place [1] {
// REMARK: remark: [Missed] BeginsKernel | Category:form-kernels | Function=accumulate | {{.*}}Reason="its iteration space differs"
func.func @accumulate(%dy: tensor<?x4x8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>, %p: tensor<4x8xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>) {
  %0 = linalg.generic {indexing_maps = [#btd, #d], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy : tensor<?x4x8xf32>) outs(%b : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#btd, #td], iterator_types = ["reduction", "parallel", "parallel"]}
      ins(%dy : tensor<?x4x8xf32>) outs(%p : tensor<4x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %s = arith.addf %acc, %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %2 = linalg.generic {indexing_maps = [#btd, #d], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%dy : tensor<?x4x8xf32>) outs(%c : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %q = arith.mulf %a, %a : f32
    %s = arith.addf %acc, %q : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0, %2, %1 : tensor<8xf32>, tensor<8xf32>, tensor<4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// The last op joins the second one, which has to run before the linear op; so has
// the first op then, whose result only the last one reads.

// CHECK-LABEL: func @early
// CHECK: %[[A:.+]] = exec.dispatch @{{.+}}(%arg0)
// CHECK: %[[B:.+]]:2 = exec.dispatch @{{.+}}(%arg1, %arg2, %[[A]])
// CHECK: nn.linear %[[B]]#0
func.func @early(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>, %p: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %1 = linalg.generic {indexing_maps = [#btd, #btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y, %p : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.mulf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %2 = nn.linear %1, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %3 = linalg.generic {indexing_maps = [#btd, #btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0, %p : tensor<?x4x8xf32>, tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.mulf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %2, %3 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// -----

#btd = affine_map<(d0, d1, d2) -> (d0, d1, d2)>

// Of the same domain, but with nothing in common: fusing them would only widen
// the working set.

// CHECK-LABEL: func @unrelated
// CHECK: exec.dispatch @[[K:[a-z_0-9]+]](%{{.+}}) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// CHECK: exec.dispatch @[[K]](%{{.+}}) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
// REMARK-NOT: Function=unrelated{{.*}}Reason
func.func @unrelated(%x: tensor<?x4x8xf32>, %y: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %x, %c0 : tensor<?x4x8xf32>
  %e = tensor.empty(%b) : tensor<?x4x8xf32>
  %0 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  %1 = linalg.generic {indexing_maps = [#btd, #btd], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%y : tensor<?x4x8xf32>) outs(%e : tensor<?x4x8xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x4x8xf32>
  return %0, %1 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// -----

#n = affine_map<(d0) -> (d0)>

// The runtime calls the optimizer's kernel with the function's own arguments,
// used or not, and expects updates where the state lies.

// CHECK-LABEL: func @update
// CHECK-SAME: %[[P:[^:]+]]: tensor<?xf32>, %[[G:[^:]+]]: tensor<?xf32>, %[[U:[^:]+]]: tensor<?xf32>
// CHECK: exec.dispatch @[[K:[a-z_0-9]+]](%[[P]], %[[G]], %[[U]])
// CHECK: exec.kernel @[[K]]
// CHECK-SAME: -> tensor<?xf32> flat 1 per_sample in_place [0] {
exec.optimizer update @update
func.func @update(%p: tensor<?xf32>, %g: tensor<?xf32>, %unused: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %p, %c0 : tensor<?xf32>
  %e = tensor.empty(%b) : tensor<?xf32>
  %0 = linalg.generic {indexing_maps = [#n, #n, #n], iterator_types = ["parallel"]}
      ins(%p, %g : tensor<?xf32>, tensor<?xf32>) outs(%e : tensor<?xf32>) {
  ^bb0(%a: f32, %c: f32, %o: f32):
    %s = arith.subf %a, %c : f32
    linalg.yield %s : f32
  } -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

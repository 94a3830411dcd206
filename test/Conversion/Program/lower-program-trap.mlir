// RUN: poplar-opt %s --lower-program=trap-dead-ranges | FileCheck %s
// RUN: poplar-opt %s --lower-program | FileCheck %s --check-prefix=PLAIN

// Where a buffer's life ends, it is filled with NaN: its bytes a sample times
// the batch, or its bytes in transient memory.

// CHECK-LABEL: func @infer.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %{{[^:]+}}: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK: %[[C128:.+]] = arith.constant 128 : i64
// CHECK: %[[BYTES:.+]] = arith.muli %[[B]], %[[C128]]
// CHECK: llvm.call @poplar_rt_poison(%[[CTX]], %{{.+}}, %[[BYTES]])
// CHECK: %[[C256:.+]] = arith.constant 256 : i64
// CHECK: llvm.call @poplar_rt_poison(%[[CTX]], %{{.+}}, %[[C256]])
// PLAIN-NOT: llvm.call
module {
  exec.arena fixed 1024 per_sample 192 live 192 transient 0 bytes 256 live 256 scratch 1024 bytes 0
  exec.function step @infer() inputs <ids = 0> {
    %0 = exec.buffer batch at 64 : memref<?x4x8xf32>
    %1 = exec.buffer transient at 0 : memref<64xf32>
    exec.end %0 : memref<?x4x8xf32>
    exec.end %1 : memref<64xf32>
    exec.return
  }
}

// RUN: not poplar-opt %s --exec-verify 2>&1 | FileCheck %s

// Two buffers that are alive at one time share bytes 64 to 127 of a sample.
exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function step @infer() inputs <ids = 0> {
  %0 = exec.buffer batch at 0 : memref<?x32xf32>
  %1 = exec.buffer batch at 64 : memref<?x16xf32>
  exec.end %0 : memref<?x32xf32>
  exec.end %1 : memref<?x16xf32>
  exec.return
}

// The result:
//
// CHECK: error: 'exec.buffer' op overlaps a live buffer
// CHECK:   %1 = exec.buffer batch at 64 : memref<?x16xf32>
// CHECK: note: which is here
// CHECK:   %0 = exec.buffer batch at 0 : memref<?x32xf32>

// RUN: not poplar-opt %s --poplar-lower-gpu=chip=sm_1 2>&1 | FileCheck %s
// CHECK: error: unknown chip 'sm_1'; there are sm_60, sm_70,
// CHECK-NOT: LLVM ERROR

module {}

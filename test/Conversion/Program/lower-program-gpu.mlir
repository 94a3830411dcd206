// RUN: poplar-opt %s --lower-program | FileCheck %s

// Where there are kernels for a GPU, they are started by their number, with the
// same pointers, batch and extent as on a host; what is written by hand is added
// behind them, once per descriptor, and the runtime's own come last. The table
// says all that a launch needs; the kernels themselves go another way.

// CHECK-LABEL: func @infer.step(
// CHECK-SAME: %[[CTX:[^:]+]]: !llvm.ptr, %[[ARENA:[^:]+]]: !llvm.ptr, %[[B:[^:]+]]: i64)
// CHECK-NOT: poplar_rt_dispatch
// CHECK: %[[ZERO:.+]] = arith.constant 0 : i64
// CHECK: %[[C40:.+]] = arith.constant 40 : i64
// CHECK: %[[EXTENT:.+]] = arith.muli %[[B]], %[[C40]]
// CHECK: llvm.call @poplar_rt_launch(%[[CTX]], %[[ZERO]], %{{.+}}, %[[B]], %[[EXTENT]])
// Two heads of two tiles of queries.
// CHECK: %[[ONE:.+]] = arith.constant 1 : i64
// CHECK: %[[C4:.+]] = arith.constant 4 : i64
// CHECK: %[[EXTENT:.+]] = arith.muli %[[B]], %[[C4]]
// CHECK: llvm.call @poplar_rt_launch(%[[CTX]], %[[ONE]], %{{.+}}, %[[B]], %[[EXTENT]])
// CHECK: %[[ONE:.+]] = arith.constant 1 : i64
// CHECK: llvm.call @poplar_rt_launch(%[[CTX]], %[[ONE]],
// Its gradient takes two kernels, one of which writes a number for each row that
// the other reads: 2 * 4 * 40 numbers a head, then q, dy, the output and dq of 8
// columns, k and v of 8; and all but the output and dq, with dk and dv.
// CHECK-COUNT-2: llvm.call @poplar_rt_launch(
// CHECK: return
// CHECK-NOT: gpu.module
// CHECK: exec.gpu_kernel "sum" block [32, 8, 1] pointers 3 parts_per_block 8 bytes 128 per_sample 4000 flops_per_sample 0
// 40 * 41 / 2 pairs, of two heads; two products of 4 each.
// CHECK: exec.gpu_kernel "poplar_gpu_attention_forward_0" block [32, 8, 1] pointers 7 parts_per_block 1
// CHECK-SAME: calls "poplar_gpu_attention_forward" with <"PoplarAttention", {cap = 0.000000e+00 : f64, causal = 1 : i32, documents = 0 : i64, {{.*}} scale = 5.000000e-01 : f64, seq_len = 40 : i64, type = 0 : i32, {{.*}}window = 0 : i64}> bytes 0 per_sample 5440 flops_per_sample 26240
// CHECK: exec.gpu_kernel "poplar_gpu_attention_forward_1"
// At most three keys before a query, but all behind it: 1600 - 36 * 37 / 2 pairs.
// CHECK-SAME: flops_per_sample 29888
// CHECK: exec.gpu_kernel "poplar_gpu_attention_backward_q_0" block [32, 8, 1] pointers 10 parts_per_block 1
// CHECK-SAME: bytes 0 per_sample 8320 flops_per_sample 39360
// CHECK: exec.gpu_kernel "poplar_gpu_attention_backward_kv_0" block [32, 8, 1] pointers 10 parts_per_block 1
// CHECK-SAME: bytes 0 per_sample 8320 flops_per_sample 52480
// CHECK: exec.gpu_kernel "poplar_sum_squares" block [256, 1, 1] pointers 2 parts_per_block 16384
// CHECK-SAME: calls "poplar_gpu_sum_squares" bytes 0 per_sample 4 flops_per_sample 0
// CHECK: exec.gpu_kernel "poplar_scale" block [256, 1, 1] pointers 3 parts_per_block 256
// CHECK-SAME: calls "poplar_gpu_scale" bytes 0 per_sample 8 flops_per_sample 0
module attributes {gpu.container_module} {
  exec.arena fixed 1024 per_sample 40960 live 40960 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  gpu.module @kernels {
    gpu.func @sum(%a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %batch: i64) kernel
        attributes {known_block_size = array<i32: 32, 8, 1>} {
      gpu.return
    }
  }
  exec.gpu_kernel "sum" block [32, 8, 1] pointers 3 parts_per_block 8 bytes 128 per_sample 4000 flops_per_sample 0
  exec.kernel @sum(%a: tensor<?x40x24xf32>, %b: tensor<?x40x24xf32>) -> tensor<?x40x24xf32> rows 40 per_sample {
    exec.yield %a : tensor<?x40x24xf32>
  }
  exec.function step @infer() inputs <ids = 64, targets = 256> {
    %x = exec.buffer batch at 64 : memref<?x40x24xf32>
    %0 = exec.buffer batch at 4096 : memref<?x40x24xf32>
    exec.dispatch @sum(%x, %x, %0) : (memref<?x40x24xf32>, memref<?x40x24xf32>, memref<?x40x24xf32>) -> ()
    %y = exec.buffer batch at 8192 : memref<?x40x8xf32>
    %lse = exec.buffer batch at 16384 : memref<?x2x40xf32>
    exec.attention %0 into %y, %lse causal heads 2 kv_heads 2 scale 0.5 : (memref<?x40x24xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>)
    exec.attention %0 into %y, %lse causal heads 2 kv_heads 2 scale 0.5 : (memref<?x40x24xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>)
    exec.attention %0 into %y, %lse heads 2 kv_heads 2 scale 0.5 window 4 : (memref<?x40x24xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>)
    %delta = exec.buffer batch at 20480 : memref<?x2x40xf32>
    exec.attention_grad %y, %y, %lse, %0 delta %delta into %x causal heads 2 kv_heads 2 scale 0.5 : (memref<?x40x8xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>, memref<?x40x24xf32>, memref<?x2x40xf32>, memref<?x40x24xf32>)
    exec.return
  }
}

// RUN: poplar-opt %s --lower-program | FileCheck %s

// Attention that a library may compute: one call for the gradient, too, with the
// numbers of our own kernels, their parts for each sample, and the bytes that the
// library works in. The kernels are in the image for where it cannot.

// CHECK-DAG: llvm.mlir.global internal constant @library_attention({{.*}}) {{.*}} : !llvm.array<28 x i64>
// CHECK-DAG: llvm.mlir.global internal constant @library_attention_0({{.*}}) {{.*}} : !llvm.array<28 x i64>
// CHECK-LABEL: func @infer.step(
// CHECK-NOT: poplar_rt_launch
// CHECK: llvm.call @poplar_rt_attention(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()
// CHECK: llvm.call @poplar_rt_attention(
// CHECK-NOT: poplar_rt_launch
// CHECK: return
// CHECK: exec.gpu_kernel "poplar_gpu_attention_forward_0" block [32, 8, 1] pointers 7 parts_per_block 1
// CHECK: exec.gpu_kernel "poplar_gpu_attention_backward_q_0" block [32, 8, 1] pointers 10 parts_per_block 1
// CHECK: exec.gpu_kernel "poplar_gpu_attention_backward_kv_0" block [32, 8, 1] pointers 10 parts_per_block 1
module attributes {gpu.container_module} {
  exec.arena fixed 1024 per_sample 40960 live 40960 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  gpu.module @kernels {
  }
  exec.function step @infer() inputs <ids = 64, targets = 256> {
    %x = exec.buffer batch at 64 : memref<?x40x24xf32>
    %0 = exec.buffer batch at 4096 : memref<?x40x24xf32>
    %y = exec.buffer batch at 8192 : memref<?x40x8xf32>
    %lse = exec.buffer batch at 16384 : memref<?x2x40xf32>
    exec.attention %0 into %y, %lse causal heads 2 kv_heads 2 scale 0.5 library : (memref<?x40x24xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>)
    %delta = exec.buffer batch at 20480 : memref<?x128xf32>
    exec.attention_grad %y, %y, %lse, %0 delta %delta into %x causal heads 2 kv_heads 2 scale 0.5 library : (memref<?x40x8xf32>, memref<?x40x8xf32>, memref<?x2x40xf32>, memref<?x40x24xf32>, memref<?x128xf32>, memref<?x40x24xf32>)
    exec.return
  }
}

// RUN: poplar-opt %s --split-input-file --lower-program | FileCheck %s

// Linear attention, on a host: kernels of the library, each dispatched with its
// descriptor. Sixteen channels a part of a convolution; a value head of the delta
// rule; a token where gradients of queries and keys are added up.

// CHECK-DAG: llvm.mlir.global internal constant @causal_conv(dense<[4, 32, 4, 0]>
// CHECK-DAG: llvm.mlir.global internal constant @gated_delta(dense<[4, 2, 4, 3, 5, 0]>
// CHECK-LABEL: func private @forward.call(
// CHECK: llvm.mlir.addressof @poplar_causal_conv.causal_conv
// CHECK: arith.constant 2 : i64
// CHECK: llvm.call @poplar_rt_dispatch(
// CHECK: llvm.mlir.addressof @poplar_gated_delta.gated_delta
// CHECK: arith.constant 4 : i64
// CHECK: llvm.call @poplar_rt_dispatch(
// CHECK-LABEL: func private @backward.call(
// CHECK: llvm.mlir.addressof @poplar_causal_conv_grad.causal_conv
// CHECK: llvm.mlir.addressof @poplar_causal_conv_grad_weight.causal_conv
// CHECK: llvm.mlir.addressof @poplar_gated_delta_grad.gated_delta
// CHECK: llvm.mlir.addressof @poplar_gated_delta_grad_keys.gated_delta
module {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.function unit @forward(%x: memref<?x4x32xf32>, %w: memref<32x1x4xf32>, %a: memref<?x4x4xf32>, %log: memref<4xf32>, %y: memref<?x4x20xf32>) scratch 0 {
    exec.causal_conv %x, %w into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4x32xf32>)
    exec.gated_delta %x, %a, %a, %log, %log into %y key_heads 2 value_heads 4 : (memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4x20xf32>)
    exec.return
  }
  exec.function unit @backward(%x: memref<?x4x32xf32>, %w: memref<32x1x4xf32>, %a: memref<?x4x4xf32>, %log: memref<4xf32>, %dy: memref<?x4x20xf32>, %scratch: memref<?x864xf32>) scratch 0 {
    exec.causal_conv_grad %x, %w into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4x32xf32>)
    exec.causal_conv_grad_weight %x, %x into %w : (memref<?x4x32xf32>, memref<?x4x32xf32>, memref<32x1x4xf32>)
    exec.gated_delta_grad %dy, %x, %a, %a, %log, %log into %x, %a, %a, %a scratch %scratch key_heads 2 value_heads 4 : (memref<?x4x20xf32>, memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<?x864xf32>)
    exec.return
  }
}

// -----

// On a GPU, a block of threads has a token and 128 channels, or all new tokens
// after those in a cache; a value head of the delta rule.

// CHECK: exec.gpu_kernel "poplar_gpu_causal_conv_0" block [128, 1, 1] pointers 5
// CHECK-SAME: calls "poplar_gpu_causal_conv" with <"PoplarCausalConv", {channels = 32 : i64, seq_len = 4 : i64, tokens = 0 : i32, type = 0 : i32, width = 4 : i64}> bytes 512 per_sample 1024 flops_per_sample 1024
// CHECK: exec.gpu_kernel "poplar_gpu_causal_conv_cached_0" block [128, 1, 1] pointers 5
// CHECK-SAME: tokens = 2 : i32
// CHECK: exec.gpu_kernel "poplar_gpu_gated_delta_0" block [32, 8, 1] pointers 8
// CHECK-SAME: calls "poplar_gpu_gated_delta" with <"PoplarGatedDelta", {key_dim = 3 : i64, key_heads = 2 : i64, seq_len = 4 : i64, tokens = 0 : i32, type = 0 : i32, value_dim = 5 : i64, value_heads = 4 : i64}> bytes 0 per_sample 960 flops_per_sample 1680
module attributes {gpu.container_module} {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  gpu.module @kernels {
  }
  exec.function unit @forward(%x: memref<?x4x32xf32>, %w: memref<32x1x4xf32>, %at: memref<?x4xi32>, %cache: memref<?x3x32xf32>, %a: memref<?x4x4xf32>, %log: memref<4xf32>, %y: memref<?x4x20xf32>) scratch 0 {
    exec.causal_conv %x, %w into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4x32xf32>)
    exec.causal_conv %x, %w at %at cache %cache into %x : (memref<?x4x32xf32>, memref<32x1x4xf32>, memref<?x4xi32>, memref<?x3x32xf32>, memref<?x4x32xf32>)
    exec.gated_delta %x, %a, %a, %log, %log into %y key_heads 2 value_heads 4 : (memref<?x4x32xf32>, memref<?x4x4xf32>, memref<?x4x4xf32>, memref<4xf32>, memref<4xf32>, memref<?x4x20xf32>)
    exec.return
  }
}

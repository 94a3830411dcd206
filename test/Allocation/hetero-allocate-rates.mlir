// RUN: poplar-opt %s --hetero-allocate="global-batch=16 zero=0 policy=whale" | FileCheck %s

// Two equal devices, of which one does not say how fast it is in f32: both are
// rated by bf16, in which they train.

// CHECK: zero.plan stage 0 global_batch 16 policy "whale"
// CHECK-NEXT: zero.rank @known node "n" micro_batch [[SIZE:[0-9]+]] steps [[STEPS:[0-9]+]] last [[LAST:[0-9]+]]{{$}}
// CHECK-NEXT: zero.rank @unknown node "n" micro_batch [[SIZE]] steps [[STEPS]] last [[LAST]]{{$}}
nn.parameter @w : tensor<1000xf32> ones
cluster.device_type @known target "cuda:sm_80" memory 1000000 precision bf16 flops {f32 = 1.95e13, bf16 = 3.12e14}
cluster.device_type @unknown target "cuda:sm_80" memory 1000000 precision bf16 flops {bf16 = 3.12e14}
cluster.node @n devices [1 x @known, 1 x @unknown]
cluster.link inside nodes latency 0 bandwidth 1.0e30
cluster.profile @known stage 0 micro_batches [1, 16] seconds [0.25, 4.0]
cluster.profile @unknown stage 0 micro_batches [1, 16] seconds [0.25, 4.0]

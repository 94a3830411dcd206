// RUN: poplar-opt %s -split-input-file | poplar-opt -split-input-file | FileCheck %s
// RUN: poplar-opt %s -split-input-file -mlir-print-op-generic | poplar-opt -split-input-file | FileCheck %s

// CHECK: cluster.device_type @a100 target "cuda:sm_80" memory 85899345920 precision bf16
// CHECK-SAME: flops {bf16 = 3.120000e+14, f32 = 1.950000e+13}
// CHECK-SAME: bandwidth 1.555000e+12 source "datasheet"
cluster.device_type @a100 target "cuda:sm_80" memory 85899345920 precision bf16
    source "datasheet" bandwidth 1.555e12 recompute "keep"
    flops {f32 = 1.95e13, bf16 = 3.12e14}
// CHECK: cluster.device_type @v100 target "cuda:sm_70" memory 34359738368 precision f16
// CHECK-SAME: recompute "recompute-unit"
cluster.device_type @v100 target "cuda:sm_70" memory 34359738368 precision f16
    recompute "recompute-unit"
// An integer serves as a real.
// CHECK: cluster.device_type @cpu target "host:avx512-f32" memory 8589934592 precision f32
// CHECK-SAME: bandwidth 2.000000e+10 threads 2{{$}}
cluster.device_type @cpu target "host:avx512-f32" memory 8589934592
    precision f32 bandwidth 20000000000 threads 2

// CHECK: cluster.node @node0 devices [2 x @a100, @v100, @a100]
cluster.node @node0 devices [@a100, @a100, @v100, @a100]
// CHECK: cluster.node @node1 devices [3 x @v100, @cpu]
cluster.node @node1 devices [2 x @v100, @v100, 1 x @cpu]
// CHECK: cluster.node @node2 devices [@cpu]
cluster.node @node2 devices [@cpu]

// CHECK: cluster.link between @node0 and @node1 latency 1.000000e-05 bandwidth 1.250000e+10 source "measured"
cluster.link between @node0 and @node1 latency 1.0e-5 bandwidth 1.25e10 source "measured"
// CHECK: cluster.link from @node0 to @node2 latency 2.000000e-02 bandwidth 5.000000e+06
cluster.link from @node0 to @node2 latency 2.0e-2 bandwidth 5.0e6
// CHECK: cluster.link from @node2 to @node0 latency 0.000000e+00 bandwidth 1.000000e+08
cluster.link from @node2 to @node0 latency 0 bandwidth 1.0e8
// CHECK: cluster.link inside @node0 latency 3.000000e-06 bandwidth 3.000000e+11
cluster.link inside @node0 latency 3.0e-6 bandwidth 3.0e11
// CHECK: cluster.link inside nodes latency 1.000000e-05 bandwidth 1.200000e+10
cluster.link inside nodes latency 1.0e-5 bandwidth 1.2e10
// CHECK: cluster.link between nodes latency 5.000000e-05 bandwidth 1.250000e+09 overhead 2.000000e-10 source "measured"
cluster.link between nodes latency 5.0e-5 bandwidth 1.25e9 overhead 2.0e-10 source "measured"

// No digit of a time is lost.
// CHECK: cluster.profile @a100 stage 2 micro_batches [1, 2, 4]
// CHECK-SAME: seconds [0.12345678901234566, 1.800000e-01, 3.500000e-01]
// CHECK-SAME: spread [1.000000e-02, 0.000000e+00, 4.000000e-03]
// CHECK-SAME: max_micro_batch 11 memory fixed 1073741824 per_sample 157286400
// CHECK-SAME: optimizer 2.000000e-02 model "3f786850" machine "node0"
// CHECK-SAME: versions {mpi = "4.1.4", poplar = "0.1.0"}
cluster.profile @a100 stage 2 micro_batches [1, 2, 4]
    seconds [0.12345678901234566, 0.18, 0.35] spread [0.01, 0, 0.004]
    max_micro_batch 11 memory fixed 1073741824 per_sample 157286400
    optimizer 0.02 model "3f786850" machine "node0"
    versions {poplar = "0.1.0", mpi = "4.1.4"}
// The same device type and stage, but not the same thing measured.
// CHECK: cluster.profile @a100 stage 2 micro_batches [1, 2]
// CHECK-SAME: precision f32 recompute "recompute-unit"
cluster.profile @a100 stage 2 micro_batches [1, 2] seconds [0.2, 0.4]
    precision f32 recompute "recompute-unit" model "3f786850"
// CHECK: cluster.profile @a100 stage 2 {{.*}} estimate model "3f786850" source "roofline"
cluster.profile @a100 stage 2 micro_batches [1, 2] seconds [0.2, 0.4]
    source "roofline" model "3f786850" estimate
// Where fewer than two micro-batches fit, a curve has fewer points.
// CHECK: cluster.profile @v100 stage 0 micro_batches [] seconds [] max_micro_batch 0
cluster.profile @v100 stage 0 micro_batches [] seconds [] max_micro_batch 0
// CHECK: cluster.profile @v100 stage 1 micro_batches [1] seconds [5.000000e-01] max_micro_batch 1
cluster.profile @v100 stage 1 micro_batches [1] seconds [0.5] max_micro_batch 1

// -----

// Every target, in its best format; hip is planned for, not built for.
// CHECK-COUNT-19: cluster.device_type
cluster.device_type @a target "host" memory 1 precision f32
cluster.device_type @b target "host:amx-bf16" memory 1 precision bf16
cluster.device_type @c target "host:avx512-f32" memory 1 precision bf16
cluster.device_type @d target "host:avx2-f32" memory 1 precision f32
cluster.device_type @e target "host:sse41-f32" memory 1 precision f32
cluster.device_type @f target "host:f16-storage" memory 1 precision f16
cluster.device_type @g target "cuda:sm_60" memory 1 precision f16
cluster.device_type @h target "cuda:sm_70" memory 1 precision f16
cluster.device_type @i target "cuda:sm_75" memory 1 precision f16
cluster.device_type @j target "cuda:sm_80" memory 1 precision bf16
cluster.device_type @k target "cuda:sm_86" memory 1 precision bf16
cluster.device_type @l target "cuda:sm_87" memory 1 precision bf16
cluster.device_type @m target "cuda:sm_89" memory 1 precision bf16
cluster.device_type @n target "cuda:sm_90" memory 1 precision bf16
cluster.device_type @o target "cuda:sm_100" memory 1 precision bf16
cluster.device_type @p target "cuda:sm_103" memory 1 precision bf16
cluster.device_type @q target "cuda:sm_120" memory 1 precision bf16
cluster.device_type @r target "hip:gfx90a" memory 1 precision bf16
cluster.device_type @s target "hip:gfx942" memory 1 precision bf16

// -----

// One node of one device needs no link.
// CHECK: cluster.node @alone devices [@cpu]
cluster.device_type @cpu target "host" memory 1073741824 precision f32
cluster.node @alone devices [@cpu]

// -----

// Reals with the digits of an integer are printed as their bits, which are not
// read as an integer.
// CHECK: cluster.link inside nodes latency 1.000000e+00 bandwidth 0x41D26580B4C00000
// CHECK: cluster.link between nodes latency 1.000000e+00 bandwidth 0x41D26580B4C00000
cluster.device_type @cpu target "host" memory 1073741824 precision f32
cluster.node @n0 devices [2 x @cpu]
cluster.link inside nodes latency 1 bandwidth 1234567891
cluster.link between nodes latency 1 bandwidth 0x41D26580B4C00000

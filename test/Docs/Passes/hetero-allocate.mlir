// RUN: poplar-opt %s --hetero-allocate="global-batch=10 zero=0" | FileCheck %s

// One device is four times as fast as the other: of 10 samples it takes 8.
module attributes {nn.model = {architecture = "tiny", num_parameters = 64 : i64}} {
  nn.parameter @w : tensor<8x8xf32> ones
  cluster.device_type @fast target "cuda:sm_80" memory 100000 precision f32
  cluster.device_type @slow target "cuda:sm_70" memory 100000 precision f32
  cluster.node @n devices [@fast, @slow]
  cluster.link inside nodes latency 0.0 bandwidth 1.0e12
  cluster.profile @fast stage 0 micro_batches [1, 8] seconds [0.25, 2.0] memory fixed 1000 per_sample 1000
  cluster.profile @slow stage 0 micro_batches [1, 8] seconds [1.0, 8.0] memory fixed 1000 per_sample 1000
}

// The result:
//
// CHECK:   zero.plan stage 0 global_batch 10 policy "exact" attributes {lower_bound_seconds = {{.*}}, predicted_seconds = {{.*}}} {
// CHECK-NEXT:     zero.rank @fast node "n" micro_batch 8 steps 1 last 8
// CHECK-NEXT:     zero.rank @slow node "n" micro_batch 2 steps 1 last 2
// CHECK-NEXT:   }

// RUN: poplar-opt %s --specialize-device-types | FileCheck %s

// Each type has a program with its own number format. The wire is f32, since not
// all of them compute in bf16.
module attributes {nn.model = {architecture = "tiny"}} {
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @b [@w]
  cluster.device_type @fast target "cuda:sm_80" memory 100000 precision bf16
  cluster.device_type @slow target "cuda:sm_70" memory 100000 precision f32
  cluster.node @n devices [@fast, @slow]
  cluster.link inside nodes latency 1.0e-6 bandwidth 1.0e10
  func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
    return %x : tensor<?x4x8xf32>
  }
  zero.plan stage 2 global_batch 5 policy "exact" {
    zero.rank @fast node "n" micro_batch 4 steps 1 last 4
    zero.rank @slow node "n" micro_batch 1 steps 1 last 1
  }
}

// The result:
//
// CHECK:   module @fast.program attributes {nn.model = {architecture = "tiny"}} {
// CHECK:     zero.program "fast" {{.*}} precision bf16 wire f32 {{.*}} world_size 2{{$}}
// CHECK:     nn.parameter @w : tensor<8x8xf32>  ones
// CHECK-NEXT:     zero.bucket @b [@w] bounds [0, 32, 64]
// CHECK:   module @slow.program attributes {nn.model = {architecture = "tiny"}} {
// CHECK:     zero.program "slow" {{.*}} precision f32 wire f32 {{.*}} world_size 2{{$}}
// CHECK:     nn.parameter @w : tensor<8x8xf32>  ones
// CHECK-NEXT:     zero.bucket @b [@w] bounds [0, 32, 64]

// RUN: poplar-opt %s --specialize-device-types --split-input-file --verify-diagnostics

// expected-error @below {{expected exactly one zero.plan}}
module {
  nn.parameter @w : tensor<64xf32> ones
}

// -----

// expected-error @below {{expected exactly one zero.plan}}
module {
  zero.plan stage 0 global_batch 1 policy "exact" {
    zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  }
  zero.plan stage 0 global_batch 1 policy "exact" {
    zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  }
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu, @cpu]
cluster.link inside nodes latency 0.0 bandwidth 1.0e+09
zero.plan stage 0 global_batch 2 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  // expected-error @below {{is on a device of type @gpu, which is not a cluster.device_type}}
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu]
// expected-error @below {{has no rank that holds any state}}
zero.plan stage 1 global_batch 1 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1 state 0.0
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision f32
zero.plan stage 0 global_batch 1 policy "exact" {
  // expected-error @below {{is on node 'n', which is not a cluster.node}}
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
}

// -----

// What a plan decides is not written on buckets.
cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu]
nn.parameter @w : tensor<64xf32> ones
// expected-error @below {{has bounds, groups or a stage of its own, which follow from the plan: who holds how much is the `state` of its ranks}}
zero.bucket @b [@w] bounds [0, 64]
zero.plan stage 1 global_batch 1 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision bf16
cluster.node @n devices [@cpu]
nn.parameter @w : tensor<64xf32> ones
zero.bucket @b [@w]
// expected-error @below {{sends parameters as bf16, which is no narrower than the bf16 that all ranks compute in: leave out parameter_wire}}
zero.plan stage 1 global_batch 1 policy "exact" parameter_wire bf16 {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision f32
cluster.node @n devices [@cpu, @cpu]
cluster.link inside nodes latency 0.0 bandwidth 1.0e+09
zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
  zero.group units [0, 2] stage 0
  zero.group units [2, 4] stage 0
  // expected-error @below {{is to do recompute-unit:1, but ranks of a group recompute in all layers of the group or in none: give it recompute-unit}}
  zero.rank @cpu node "n" micro_batch 1 steps 2 last 1 recompute "recompute-unit:1"
  zero.rank @cpu node "n" group 1 micro_batch 1 steps 2 last 1
}

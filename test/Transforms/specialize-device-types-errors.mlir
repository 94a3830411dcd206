// RUN: poplar-opt %s --specialize-device-types --split-input-file --verify-diagnostics

// expected-error @below {{expected one zero.plan to make programs for}}
module {
  nn.parameter @w : tensor<64xf32> ones
}

// -----

// expected-error @below {{expected one zero.plan to make programs for}}
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
zero.plan stage 0 global_batch 2 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1
  // expected-error @below {{is on a device of type @gpu, which is no cluster.device_type}}
  zero.rank @gpu node "n" micro_batch 1 steps 1 last 1
}

// -----

cluster.device_type @cpu target "host" memory 1000000 precision f32
// expected-error @below {{has no rank that holds any state}}
zero.plan stage 1 global_batch 1 policy "exact" {
  zero.rank @cpu node "n" micro_batch 1 steps 1 last 1 state 0.0
}

// RUN: poplar-opt %s --zero-split-turns --verify-diagnostics

// expected-error @below {{has no function @train: run --nn-differentiate first}}
module @t.stage0.program attributes {zero.program = {device_type = "t", stage = 0 : i64, world_size = 2 : i64, group = 0 : i64, groups = 2 : i64}} {
  zero.plan stage 0 global_batch 2 policy "stages" schedule "1f1b" {
    zero.group units [0, 2] stage 0
    zero.group units [2, 4] stage 0
    zero.rank @t node "n" micro_batch 1 steps 2 last 1
    zero.rank @t node "n" group 1 micro_batch 1 steps 2 last 1
  }
}

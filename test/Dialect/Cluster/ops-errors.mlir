// RUN: poplar-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{unknown target 'cuda:sm_81' (known: host, host:amx-bf16, host:avx512-f32, host:avx2-f32, host:f16-storage, host:sse41-f32, cuda:sm_60, cuda:sm_70, cuda:sm_75, cuda:sm_80, cuda:sm_86, cuda:sm_87, cuda:sm_89, cuda:sm_90, cuda:sm_100, cuda:sm_103, cuda:sm_120, hip:gfx90a, hip:gfx942)}}
cluster.device_type @a target "cuda:sm_81" memory 1 precision f32

// -----

// expected-error @below {{'cuda:sm_70' has no bf16: use precision f16 or f32}}
cluster.device_type @a target "cuda:sm_70" memory 1 precision bf16

// -----

// expected-error @below {{'cuda:sm_75' has no bf16: use precision f16 or f32}}
cluster.device_type @a target "cuda:sm_75" memory 1 precision bf16

// -----

// expected-error @below {{'host:avx2-f32' has no bf16: use precision f32}}
cluster.device_type @a target "host:avx2-f32" memory 1 precision bf16

// -----

// expected-error @below {{'host:sse41-f32' has no bf16: use precision f32}}
cluster.device_type @a target "host:sse41-f32" memory 1 precision bf16

// -----

// expected-error @below {{'host:f16-storage' has no f32: use precision f16}}
cluster.device_type @a target "host:f16-storage" memory 1 precision f32

// -----

// expected-error @below {{'host:amx-bf16' has no f16: use precision bf16 or f32}}
cluster.device_type @a target "host:amx-bf16" memory 1 precision f16

// -----

// expected-error @below {{device type @a has no memory: say how many bytes a rank may use}}
cluster.device_type @a target "host" precision f32

// -----

// expected-error @below {{memory is 0, expected 1 to 4398046511104}}
cluster.device_type @a target "host" memory 0 precision f32

// -----

// expected-error @below {{memory is -5, expected 1 to 4398046511104}}
cluster.device_type @a target "host" memory -5 precision f32

// -----

// expected-error @below {{memory is 1000000000000000000, expected 1 to 4398046511104}}
cluster.device_type @a target "host" memory 1000000000000000000 precision f32

// -----

// expected-error @below {{threads is 0, expected 1 to 4096}}
cluster.device_type @a target "host" memory 1 precision f32 threads 0

// -----

// expected-error @below {{threads are for host targets, not for 'cuda:sm_80'}}
cluster.device_type @a target "cuda:sm_80" memory 1 precision f32 threads 1

// -----

// expected-error @below {{unknown recompute policy 'none' (known: keep, recompute-attention, recompute-unit, or recompute-attention:N or recompute-unit:N for the first N layers)}}
cluster.device_type @a target "host" memory 1 precision f32 recompute "none"

// -----

// expected-error @below {{bandwidth is 0, expected a finite number above 0}}
cluster.device_type @a target "host" memory 1 precision f32 bandwidth 0

// -----

// expected-error @below {{flops are given for 'fp8', expected f32, tf32, bf16 or f16}}
cluster.device_type @a target "host" memory 1 precision f32 flops {fp8 = 1.0e12}

// -----

// expected-error @below {{flops of f32 is -1e+12, expected a finite number above 0}}
cluster.device_type @a target "host" memory 1 precision f32 flops {f32 = -1.0e12}

// -----

// expected-error @below {{flops of f32 are not an f64}}
"cluster.device_type"() <{sym_name = "a", target = "host", memory = 1 : i64, precision = 0 : i32, flops = {f32 = 1 : i64}}> : () -> ()

// -----

// expected-error @below {{'f32' is given twice}}
cluster.device_type @a target "host" memory 1 precision f32 flops {f32 = 1.0e12, f32 = 2.0e12}

// -----

func.func @f() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  cluster.device_type @a target "host" memory 1 precision f32
  return
}

// -----

// expected-error @below {{node @n has no devices}}
cluster.node @n devices []

// -----

// expected-error @below {{expected a count from 1 to 65536, found 0}}
cluster.node @n devices [0 x @a]

// -----

// expected-error @below {{expected a count from 1 to 65536, found 1000000000000000000}}
cluster.node @n devices [1000000000000000000 x @a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{node @n has 65537 devices, expected at most 65536}}
cluster.node @n devices [65536 x @a, @a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.link inside nodes latency 0 bandwidth 1
cluster.link between nodes latency 0 bandwidth 1
cluster.node @n0 devices [65536 x @a]
cluster.node @n1 devices [65536 x @a]
cluster.node @n2 devices [65536 x @a]
cluster.node @n3 devices [65536 x @a]
cluster.node @n4 devices [65536 x @a]
cluster.node @n5 devices [65536 x @a]
cluster.node @n6 devices [65536 x @a]
cluster.node @n7 devices [65536 x @a]
cluster.node @n8 devices [65536 x @a]
cluster.node @n9 devices [65536 x @a]
cluster.node @n10 devices [65536 x @a]
cluster.node @n11 devices [65536 x @a]
cluster.node @n12 devices [65536 x @a]
cluster.node @n13 devices [65536 x @a]
cluster.node @n14 devices [65536 x @a]
cluster.node @n15 devices [65536 x @a]
// expected-error @below {{node @n16 exceeds the limit of 1048576 devices}}
cluster.node @n16 devices [@a]

// -----

// expected-error @below {{unknown device type @a (there is none)}}
cluster.node @n devices [@a]

// -----

cluster.device_type @a100 target "host" memory 1 precision f32
cluster.device_type @v100 target "host" memory 1 precision f32
// expected-error @below {{unknown device type @h100 (known: @a100, @v100)}}
cluster.node @n devices [@a100, @h100]

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @m devices [@a]
// A symbol, but of something else.
// expected-error @below {{unknown device type @m (known: @a)}}
cluster.node @n devices [@m]

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{node @n has 2 devices, but there is no link inside it and no default (inside nodes)}}
cluster.node @n devices [2 x @a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n devices [@a]
// expected-error @below {{node @m cannot be reached from @n: there is no link and no default (between nodes)}}
cluster.node @m devices [@a]
cluster.link from @m to @n latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{node @n cannot be reached from @l: there is no link and no default (between nodes)}}
cluster.node @n devices [@a]
cluster.node @m devices [@a]
cluster.node @l devices [@a]
cluster.link between @m and @n latency 0 bandwidth 1
cluster.link between @m and @l latency 0 bandwidth 1

// -----

// expected-error @below {{expected 'between', 'from' or 'inside'}}
cluster.link among @m and @n latency 0 bandwidth 1

// -----

// expected-error @below {{latency is -1e-06, expected a finite number, not negative}}
cluster.link inside nodes latency -1.0e-6 bandwidth 1

// -----

// expected-error @below {{overhead is -1e-09, expected a finite number, not negative}}
cluster.link inside nodes latency 0 bandwidth 1 overhead -1.0e-9

// -----

// expected-error @below {{bandwidth is 0, expected a finite number above 0}}
cluster.link inside nodes latency 0 bandwidth 0

// -----

// expected-error @below {{bandwidth is -1.25e+10, expected a finite number above 0}}
cluster.link inside nodes latency 0 bandwidth -1.25e10

// -----

// expected-error @below {{bandwidth is inf, expected a finite number above 0}}
"cluster.link"() <{kind = 2 : i32, latency = 0.0 : f64, bandwidth = 0x7FF0000000000000 : f64}> : () -> ()

// -----

// expected-error @below {{latency is nan, expected a finite number, not negative}}
"cluster.link"() <{kind = 2 : i32, latency = 0x7FF8000000000000 : f64, bandwidth = 1.0 : f64}> : () -> ()

// -----

// expected-error @below {{a link 'inside' names at most one node}}
"cluster.link"() <{kind = 2 : i32, first = @m, second = @n, latency = 0.0 : f64, bandwidth = 1.0 : f64}> : () -> ()

// -----

// expected-error @below {{a link 'between' names two nodes}}
"cluster.link"() <{kind = 0 : i32, first = @m, latency = 0.0 : f64, bandwidth = 1.0 : f64}> : () -> ()

// -----

// expected-error @below {{a link 'from' names two nodes}}
"cluster.link"() <{kind = 1 : i32, latency = 0.0 : f64, bandwidth = 1.0 : f64}> : () -> ()

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n1 devices [@a]
cluster.node @n2 devices [@a]
// The misspelt name, not the node that stays without a link.
// expected-error @below {{unknown node @n3 (known: @n1, @n2)}}
cluster.link between @n1 and @n3 latency 0 bandwidth 1

// -----

// expected-error @below {{expected a number}}
cluster.link inside nodes latency "low" bandwidth 1

// -----

// expected-error @below {{joins @m with itself: use 'inside'}}
cluster.link between @m and @m latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n devices [@a]
// expected-error @below {{unknown node @m (known: @n)}}
cluster.link between @n and @m latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{unknown node @a (there is none)}}
cluster.link inside @a latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @m devices [@a]
cluster.node @n devices [@a]
// expected-note @below {{the first is here}}
cluster.link between @m and @n latency 0 bandwidth 1
// expected-error @below {{a second link from @n to @m}}
cluster.link from @n to @m latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n devices [@a]
// expected-note @below {{the first is here}}
cluster.link inside @n latency 0 bandwidth 1
// expected-error @below {{a second link inside @n}}
cluster.link inside @n latency 0 bandwidth 1

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n devices [@a]
cluster.link between nodes latency 0 bandwidth 1
// expected-note @below {{the first is here}}
cluster.link inside nodes latency 0 bandwidth 1
// expected-error @below {{a second link inside nodes}}
cluster.link inside nodes latency 0 bandwidth 2

// -----

cluster.device_type @a target "host" memory 1 precision f32
cluster.node @n devices [@a]
// expected-note @below {{the first is here}}
cluster.link between nodes latency 0 bandwidth 1
// expected-error @below {{a second link between nodes}}
cluster.link between nodes latency 0 bandwidth 1

// -----

// expected-error @below {{stage is 4, expected 0 to 3}}
cluster.profile @a stage 4 micro_batches [1, 2] seconds [0.1, 0.2]

// -----

// expected-error @below {{stage is -1, expected 0 to 3}}
cluster.profile @a stage -1 micro_batches [1, 2] seconds [0.1, 0.2]

// -----

// expected-error @below {{has 2 micro-batches but 3 times}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2, 0.3]

// -----

// expected-error @below {{has 2 micro-batches but 1 spreads}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] spread [0.01]

// -----

// expected-error @below {{a curve needs at least 2 points, this has 1}}
cluster.profile @a stage 0 micro_batches [1] seconds [0.1]

// -----

// expected-error @below {{a curve needs at least 2 points, this has 1}}
cluster.profile @a stage 0 micro_batches [1] seconds [0.1] max_micro_batch 2

// -----

// expected-error @below {{a curve needs at least 1 point, this has 0}}
cluster.profile @a stage 0 micro_batches [] seconds [] max_micro_batch 1

// -----

// expected-error @below {{max_micro_batch is -1, expected 0 to 2147483648}}
cluster.profile @a stage 0 micro_batches [] seconds [] max_micro_batch -1

// -----

// expected-error @below {{has a time of micro-batch 4, but the largest that fits is 3}}
cluster.profile @a stage 0 micro_batches [2, 4] seconds [0.1, 0.2] max_micro_batch 3

// -----

// expected-error @below {{micro-batch is 0, expected 1 to 2147483648}}
cluster.profile @a stage 0 micro_batches [0, 1] seconds [0.1, 0.2]

// -----

// expected-error @below {{micro-batches must increase: 2 follows 2}}
cluster.profile @a stage 0 micro_batches [1, 2, 2] seconds [0.1, 0.2, 0.3]

// -----

// expected-error @below {{micro-batches must increase: 1 follows 2}}
cluster.profile @a stage 0 micro_batches [2, 1] seconds [0.1, 0.2]

// -----

// expected-error @below {{time of micro-batch 2 is 0, expected a finite number above 0}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0]

// -----

// expected-error @below {{time of micro-batch 1 is -0.1, expected a finite number above 0}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [-0.1, 0.1]

// -----

// expected-error @below {{spread of micro-batch 2 is -0.5, expected a finite number, not negative}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] spread [0, -0.5]

// -----

// expected-error @below {{fixed memory is -1, expected 0 to 4398046511104}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] memory fixed -1 per_sample 1

// -----

// expected-error @below {{memory per sample is -1, expected 0 to 4398046511104}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] memory fixed 1 per_sample -1

// -----

// expected-error @below {{memory needs both its fixed and its per-sample part}}
"cluster.profile"() <{device_type = @a, stage = 0 : i64, micro_batches = array<i64: 1, 2>, seconds = array<f64: 0.1, 0.2>, fixed_bytes = 1 : i64}> : () -> ()

// -----

// expected-error @below {{optimizer is -1, expected a finite number, not negative}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] optimizer -1

// -----

// expected-error @below {{unknown recompute policy 'all' (known: keep, recompute-attention, recompute-unit, or recompute-attention:N or recompute-unit:N for the first N layers)}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] recompute "all"

// -----

// expected-error @below {{version of "mpi" is not a string}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] versions {mpi = 4}

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{unknown device type @b (known: @a)}}
cluster.profile @b stage 0 micro_batches [1, 2] seconds [0.1, 0.2]

// -----

cluster.device_type @a target "cuda:sm_70" memory 1 precision f16
// expected-error @below {{has precision bf16, which 'cuda:sm_70' does not support}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] precision bf16

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-note @below {{the first is here}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] precision f32
// expected-error @below {{a second profile of @a in stage 0 for the same model, precision and recompute policy}}
cluster.profile @a stage 0 micro_batches [1, 2] seconds [0.1, 0.2] recompute "keep"

// -----

// Names become names of directories and hosts.

// expected-error @below {{a device type has the name '$(touch X)': a name starts with a letter or a digit, holds letters, digits, '.', '_' and '-', and has 64 characters at most}}
cluster.device_type @"$(touch X)" target "host" memory 1 precision f32

// -----

// expected-error @below {{a device type has the name '../x'}}
cluster.device_type @"../x" target "host" memory 1 precision f32

// -----

// expected-error @below {{a device type has the name '-rf'}}
cluster.device_type @"-rf" target "host" memory 1 precision f32

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{a node has the name 'a b\0A\22'}}
cluster.node @"a b\0A\22" devices [@a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{a node has the name '.'}}
cluster.node @"." devices [@a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-error @below {{a node has the name 'n2345678901234567890123456789012345678901234567890123456789012345'}}
cluster.node @n2345678901234567890123456789012345678901234567890123456789012345 devices [@a]

// -----

cluster.device_type @a target "host" memory 1 precision f32
// expected-note @below {{the other is here}}
cluster.node @Host devices [@a]
// expected-error @below {{nodes @Host and @host have names that differ only by case}}
cluster.node @host devices [@a]
cluster.link between nodes latency 0.0 bandwidth 1.0e+09

// -----

// expected-note @below {{the other is here}}
cluster.device_type @a100 target "host" memory 1 precision f32
// expected-error @below {{device types @a100 and @A100 have names that differ only by case}}
cluster.device_type @A100 target "host" memory 1 precision f32
cluster.node @n devices [@a100]

// -----

// Nothing is to be kept in some layers only, and none are no layers.
// expected-error @below {{unknown recompute policy 'keep:2'}}
cluster.device_type @a target "host" memory 1 precision f32 recompute "keep:2"

// -----

// expected-error @below {{unknown recompute policy 'recompute-unit:0'}}
cluster.device_type @a target "host" memory 1 precision f32 recompute "recompute-unit:0"

// RUN: poplar-opt %s --split-input-file --verify-diagnostics

// What a function is for, and whether it can be that.

// expected-error @below {{has the unknown role 'learn'}}
exec.entry learn @step
exec.function step @step() {
  exec.return
}

// -----

// @model is no function of a program.
// expected-error @below {{has the unknown role 'model'}}
exec.entry model @step
exec.function step @step() {
  exec.return
}

// -----

// expected-error @below {{names @step, which is not a step or a turn}}
exec.entry train @step

// -----

// expected-error @below {{names @unit, which is not a step or a turn}}
exec.entry train @unit
exec.function unit @unit() scratch 0 {
  exec.return
}

// -----

// expected-note @below {{the first one}}
exec.entry forward @first chunk 1
exec.entry forward @second chunk 0
// expected-error @below {{duplicates the role 'forward'}}
exec.entry forward @second chunk 1
exec.function turn @first() {
  exec.return
}
exec.function turn @second() {
  exec.return
}

// -----

// expected-error @below {{has the role 'train', but @turn is a turn}}
exec.entry train @turn
// expected-note @below {{the function}}
exec.function turn @turn() {
  exec.return
}

// -----

// expected-error @below {{has the role 'backward', but @step is a step}}
exec.entry backward @step
// expected-note @below {{the function}}
exec.function step @step() {
  exec.return
}

// -----

// expected-error @below {{has the role 'evaluate', but @step is a step, which has no chunk}}
exec.entry evaluate @step chunk 1
// expected-note @below {{the function}}
exec.function step @step() {
  exec.return
}

// -----

// expected-error @below {{has the role 'decode', but @step does not say how many tokens it decodes}}
exec.entry decode @step
// expected-note @below {{the function}}
exec.function step @step() inputs <ids = 0, positions = 64> {
  exec.return
}

// -----

// expected-error @below {{has the role 'prefill', but @step does not take both ids and positions}}
exec.entry prefill @step
// expected-note @below {{the function}}
exec.function step @step() inputs <ids = 0> decoding 16 {
  exec.return
}

// -----

// expected-error @below {{has the role 'infer', but @step decodes}}
exec.entry infer @step
// expected-note @below {{the function}}
exec.function step @step() inputs <ids = 0> decoding 1 {
  exec.return
}

// -----

// expected-error @below {{has the role 'infer', but @step takes the gradient of a loss}}
exec.entry infer @step
// expected-note @below {{the function}}
exec.function step @step() inputs <ids = 0, dloss = 64> {
  exec.return
}

// -----

// expected-error @below {{has the role 'update', but @step takes inputs}}
exec.entry update @step
// expected-note @below {{the function}}
exec.function step @step() inputs <ids = 0> {
  exec.return
}

// -----

// expected-error @below {{has the role 'backward', but @turn has a result}}
exec.entry backward @turn
// expected-note @below {{the function}}
exec.function turn @turn() inputs <ids = 0> result 0 : memref<?x4xf32> {
  exec.return
}

// -----

// expected-error @below {{duplicate or unknown struct parameter name: labels}}
exec.function step @step() inputs <labels = 0> {
  exec.return
}

// -----

// expected-error @below {{an input lies at -64, expected an offset of 0 or more}}
exec.function step @step() inputs <ids = -64> {
  exec.return
}

// -----

// expected-error @below {{has a descriptor, but calls no function to pass it to}}
exec.gpu_kernel "kernel" block [32, 8, 1] pointers 3 parts_per_block 8
    with <"PoplarRoute", {biased = 0 : i32, groups = 1 : i32, normalized = 1 : i32, num_experts = 8 : i64, seq_len = 4 : i64, sigmoid = 0 : i32, top_groups = 1 : i32, top_k = 2 : i64, type = 0 : i32}>
    bytes 0 per_sample 8 flops_per_sample 0

// -----

exec.gpu_kernel "kernel" block [32, 8, 1] pointers 3 parts_per_block 8 calls "poplar_gpu_route"
    // expected-error @below {{PoplarRoute: type is missing}}
    with <"PoplarRoute", {biased = 0 : i32, groups = 1 : i32, normalized = 1 : i32, num_experts = 8 : i64, seq_len = 4 : i64, sigmoid = 0 : i32, top_groups = 1 : i32, top_k = 2 : i64}>
    bytes 0 per_sample 8 flops_per_sample 0

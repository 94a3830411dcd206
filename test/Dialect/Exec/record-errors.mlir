// RUN: poplar-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{the ABI has no struct 'PoplarThing'}}
exec.program <"PoplarThing", {}>

// -----

// expected-error@+1 {{must hold a PoplarProgram}}
exec.program <"PoplarLink", {rank = 0 : i64, first = 0 : i64, count = 4 : i64}>

// -----

// expected-error@+1 {{PoplarLink: count is missing}}
exec.program <"PoplarLink", {rank = 0 : i64, first = 0 : i64}>

// -----

// expected-error@+1 {{PoplarLink: unknown field "last"}}
exec.program <"PoplarLink", {rank = 0 : i64, first = 0 : i64, count = 4 : i64, last = 1 : i64}>

// -----

// expected-error@+1 {{PoplarLink: rank must be an integer of its width}}
exec.program <"PoplarLink", {rank = 0 : i32, first = 0 : i64, count = 4 : i64}>

// -----

// expected-error@+1 {{PoplarPipeline: num_chunks is derived from the list: remove it}}
exec.program <"PoplarPipeline", {group = 0 : i64, num_groups = 2 : i64, num_chunks = 0 : i64, chunks}>

// -----

// expected-error@+1 {{PoplarPipeline: chunks must be an array of records of its struct}}
exec.program <"PoplarPipeline", {group = 0 : i64, num_groups = 2 : i64,
  chunks = [#exec.record<"PoplarLink", {rank = 0 : i64, first = 0 : i64, count = 4 : i64}>]}>

// -----

// expected-error@+1 {{PoplarGPUKernel: block must be an array of its size}}
exec.program <"PoplarGPUKernel", {name = "k", block = array<i32: 128, 1>, pointers = 3 : i32,
  parts_per_block = 1 : i64, bytes = 0 : i64, bytes_per_sample = 0 : i64, flops_per_sample = 0 : i64}>

// -----

// expected-error@+1 {{PoplarDecoding: run must be a symbol or unit}}
exec.program <"PoplarDecoding", {tokens = 1 : i64, ids = 0 : i64, positions = 0 : i64, logits = 0 : i64, run = "decode"}>

// RUN: poplar-opt %s --zero-report -o /dev/null | FileCheck %s --check-prefix=TEXT
// RUN: poplar-opt %s --zero-report=json -o /dev/null | FileCheck %s --check-prefix=JSON

// Stage 2 on two ranks that own 48 and 16 of 64 elements, two steps. Per step a
// reduce_scatter: rank 0 receives 48 contributions of 4 bytes, rank 1 16. Per
// iteration an all_gather in bf16: the other's shard, 16 and 48 elements.
//
//   rank 0: 2 * 48 * 4 + 16 * 2 = 416      rank 1: 2 * 16 * 4 + 48 * 2 = 224

// TEXT: stage 2, an iteration:
// TEXT-NEXT: rank 0    a100                1 x 4 + 3      3 collectives,       0.00 MiB received
// TEXT-NEXT: rank 1    t4                  1 x 1 + 0      3 collectives,       0.00 MiB received

// JSON: "ranks": [
// JSON: "all_gather": {
// JSON-NEXT: "collectives": 1,
// JSON-NEXT: "received_bytes": 32
// JSON: "device_type": "a100",
// JSON: "rank": 0,
// JSON-NEXT: "received_bytes": 416,
// JSON: "collectives": 2,
// JSON-NEXT: "received_bytes": 384
// JSON: "received_bytes": 96
// JSON: "device_type": "t4",
// JSON: "rank": 1,
// JSON-NEXT: "received_bytes": 224,
// JSON: "received_bytes": 128
// JSON: "stage": 2

module @a100.program {
  zero.program "a100" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 48, 64]
  zero.plan stage 2 global_batch 8 policy "exact" {
    zero.rank @a100 node "n" micro_batch 4 steps 2 last 3
    zero.rank @t4 node "n" micro_batch 1 steps 2 last 0
  }
  func.func @train() {
    %g = zero.gradients @b : tensor<8x8xf32>
    zero.reduce_scatter @b wire f32 (%g : tensor<8x8xf32>)
    return
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    %t = zero.start all_gather @b wire bf16
    zero.wait %t
    return
  }
}
module @t4.program {
  zero.program "t4" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 48, 64]
  zero.plan stage 2 global_batch 8 policy "exact" {
    zero.rank @a100 node "n" micro_batch 4 steps 2 last 3
    zero.rank @t4 node "n" micro_batch 1 steps 2 last 0
  }
  func.func @train() {
    %g = zero.gradients @b : tensor<8x8xf32>
    zero.reduce_scatter @b wire f32 (%g : tensor<8x8xf32>)
    return
  }
  func.func @update() {
    zero.norm
    zero.adamw @b
    zero.all_gather @b wire bf16
    return
  }
}

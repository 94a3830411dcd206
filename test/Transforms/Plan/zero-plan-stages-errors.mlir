// RUN: poplar import %examples/models/tiny-llama.json --seq-len 16 -o %t.model
// RUN: sed -e '$d' %t.model | sed -e '$d' > %t && cat %s >> %t && echo '}' >> %t
//
// RUN: not poplar-opt %t --zero-plan-stages="stages=a global-batch=2" 2>&1 | FileCheck %s --check-prefix=ONE
// ONE: error: 'a' is one stage; a pipeline has at least two, joined by +
// RUN: not poplar-opt %t --zero-plan-stages="stages=a*x+a global-batch=2" 2>&1 | FileCheck %s --check-prefix=SYNTAX
// SYNTAX: error: stage 'a*x' is not TYPE[*PIPELINES][/DEGREE][@END], such as a100*2/4@12
// RUN: not poplar-opt %t --zero-plan-stages="stages=a/0+a global-batch=2" 2>&1 | FileCheck %s --check-prefix=DEGREE
// DEGREE: error: stage 'a/0' is not TYPE[*PIPELINES][/DEGREE][@END]
// RUN: not poplar-opt %t --zero-plan-stages="stages=a/2*2+a global-batch=2" 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: error: stage 'a/2*2' is not TYPE[*PIPELINES][/DEGREE][@END]
// RUN: not poplar-opt %t --zero-plan-stages="stages=a*2+b global-batch=2" 2>&1 | FileCheck %s --check-prefix=WIDTH
// WIDTH: error: stage 'b' is of 1 pipelines, but the first one of 2: pipelines go through all stages, so give all as many; TYPE*N/D is of N pipelines, in each of which D devices share units
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b@9 global-batch=2" 2>&1 | FileCheck %s --check-prefix=END
// END: error: the last stage ends with unit 9, but the model has 4
// RUN: not poplar-opt %t --zero-plan-stages="stages=a@3+b@2+a global-batch=2" 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: the stage of 'b' that ends before unit 2 leaves no unit to some stage
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b+b global-batch=2" 2>&1 | FileCheck %s --check-prefix=DEVICES
// DEVICES: error: stage 2 wants 1 devices of type 'b', but only 0 are left in the cluster
// RUN: not poplar-opt %t --zero-plan-stages="stages=a*2/3+a*2 global-batch=2" 2>&1 | FileCheck %s --check-prefix=NODE
// NODE: error: stage 0 wants 2 times 3 devices of type 'a' that share a node, but only 1 times as many are left in the cluster
// RUN: not poplar-opt %t --zero-plan-stages="stages=a*2+a*2 global-batch=1" 2>&1 | FileCheck %s --check-prefix=BATCH
// BATCH: error: a global batch of 1 samples in micro-batches of 1 cannot be shared by 2 pipelines
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 schedule=zigzag" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// SCHEDULE: unknown 'zigzag', expected gpipe, 1f1b, interleaved
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 zero=4" 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: unknown stage of ZeRO '4'
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 chunks=2" 2>&1 | FileCheck %s --check-prefix=CHUNKS
// CHUNKS: error: stages of schedule '1f1b' have one chunk, not 2: take the schedule interleaved
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 schedule=interleaved" 2>&1 | FileCheck %s --check-prefix=ONECHUNK
// ONECHUNK: error: stages of schedule 'interleaved' have 2 chunks or more; with one it would be 1f1b
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 schedule=interleaved chunks=0" 2>&1 | FileCheck %s --check-prefix=NOCHUNK
// NOCHUNK: error: stages have 0 chunks, expected 1 or more
// RUN: not poplar-opt %t --zero-plan-stages="stages=a+b global-batch=2 schedule=interleaved chunks=3" 2>&1 | FileCheck %s --check-prefix=UNITS
// UNITS: error: the pipeline wants 6 parts of the model (2 stages of 3 chunks), which has only 4 units (its layers, one unit before and one after them)
// RUN: not poplar-opt %t --zero-plan-stages="stages=a@1@2@3+b global-batch=2 schedule=interleaved chunks=2" 2>&1 | FileCheck %s --check-prefix=ENDS
// ENDS: error: stage 'a@1@2@3' has 3 ends, but 2 chunks: give one for each
// RUN: not poplar-opt %t --zero-plan-stages="stages=a@1@2+b global-batch=2" 2>&1 | FileCheck %s --check-prefix=TWOENDS
// TWOENDS: error: stage 'a@1@2' has 2 ends, but 1 chunk
// RUN: not poplar-opt %t --zero-plan-stages="stages=a=0|b/2 global-batch=2" 2>&1 | FileCheck %s --check-prefix=LANE
// LANE: error: stage 'a=0|b/2' is not TYPE[*PIPELINES][/DEGREE][@END], such as a100*2/4@12, {{.*}}, or several of these side by side, such as a100=3|rtx4090/2=2@12
// RUN: not poplar-opt %t --zero-plan-stages="stages=a/3|a/2|a global-batch=6" 2>&1 | FileCheck %s --check-prefix=UNLIKE
// UNLIKE: error: stage 0 has pipelines of which 2 and 3 devices share units, which is not generated: beside pipelines that share units, others may only compute whole ones
// RUN: not poplar-opt %t --zero-plan-stages="stages=a|a/2 global-batch=6 zero=2" 2>&1 | FileCheck %s --check-prefix=LOCKSTEP
// LOCKSTEP: error: stage 0 has pipelines of which unlike numbers of devices share units, whose ranks meet once an iteration, but is of ZeRO stage 2: take stage 0 or 1
// RUN: not poplar-opt %t --zero-plan-stages="stages=a=2|b+a|a global-batch=6 zero=3" 2>&1 | FileCheck %s --check-prefix=MEET
// MEET: error: pipelines have unlike shares of the batch, but in ZeRO stage 3 they meet in every micro-batch: leave out the shares, or take stage 0 or 1
// RUN: not poplar-opt %t --zero-plan-stages="stages=a:2,a:1|a:1,a:1 global-batch=6" 2>&1 | FileCheck %s --check-prefix=PARTS
// PARTS: error: stage 0 has pipelines that share units by unlike parts, 'a:1,a:1' and another: give all the same parts
// RUN: not poplar-opt %t --zero-plan-stages="stages=a=2|b+a|a=3 global-batch=6" 2>&1 | FileCheck %s --check-prefix=SHARES
// SHARES: error: stage 'a|a=3' gives pipelines other shares of the batch than the first stage: pipelines have theirs in all stages, so say them in the first one alone
cluster.device_type @a target "host:avx2-f32" memory 1073741824 precision f32
cluster.device_type @b target "host:sse41-f32" memory 1073741824 precision f32
cluster.node @n devices [4 x @a, @b]
cluster.node @m devices [2 x @a]
cluster.link inside nodes latency 1.0e-5 bandwidth 1.25e10
cluster.link between nodes latency 1.0e-5 bandwidth 1.25e10

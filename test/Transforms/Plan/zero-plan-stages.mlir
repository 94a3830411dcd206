// RUN: poplar import %examples/models/tiny-llama.json --seq-len 16 -o %t.model
// RUN: sed -e '$d' %t.model | sed -e '$d' > %t && cat %s >> %t && echo '}' >> %t
// RUN: poplar-opt %t --zero-plan-stages="stages=fast*2@1+slow*2 global-batch=7 micro-batch=2" | FileCheck %s --check-prefix=ENDS
// RUN: poplar-opt %t --zero-plan-stages="stages=fast+slow+fast schedule=gpipe global-batch=4 micro-batch=3 zero=1" | FileCheck %s --check-prefix=SHARED
// RUN: poplar-opt %t --zero-plan-stages="stages=fast*2+slow*2 global-batch=7 micro-batch=3 zero=2" | FileCheck %s --check-prefix=MEET
// RUN: poplar-opt %t --zero-plan-stages="stages=fast+slow schedule=interleaved chunks=2 global-batch=4" | FileCheck %s --check-prefix=CHUNKS
// RUN: poplar-opt %t --zero-plan-stages="stages=fast*2@1+slow*2/2@3+slow*2/1 global-batch=7 micro-batch=2" | FileCheck %s --check-prefix=SHARE
// RUN: poplar-opt %t --zero-plan-stages="stages=fast/2@1+slow/3 global-batch=3" | FileCheck %s --check-prefix=ONE
// RUN: poplar-opt %t --zero-plan-stages="stages=fast=3|slow/2=2|slow*2 global-batch=14 micro-batch=2 zero=1" | FileCheck %s --check-prefix=BESIDE
// RUN: poplar-opt %t --zero-plan-stages="stages=slow:2,slow:1|fast@2+fast|slow global-batch=4" | FileCheck %s --check-prefix=PARTS
// RUN: sed -e 's/"num_hidden_layers": 2/"num_hidden_layers": 6/' %examples/models/tiny-llama.json > %t.json
// RUN: poplar import %t.json --seq-len 16 -o %t.model
// RUN: sed -e '$d' %t.model | sed -e '$d' > %t.deep && cat %s >> %t.deep && echo '}' >> %t.deep
// RUN: poplar-opt %t.deep --zero-plan-stages="stages=fast+slow schedule=interleaved chunks=2 global-batch=4" | FileCheck %s --check-prefix=EVEN
// RUN: poplar-opt %t.deep --zero-plan-stages="stages=fast@3@7+slow@4 schedule=interleaved chunks=2 global-batch=4" | FileCheck %s --check-prefix=OWN
// RUN: poplar-opt %t.deep --zero-plan-stages="stages=fast@3+slow schedule=interleaved chunks=2 global-batch=4" | FileCheck %s --check-prefix=FIRST
// RUN: sed -e 's/"num_hidden_layers": 2/"num_hidden_layers": 5/' %examples/models/tiny-gemma2.json > %t.json
// RUN: poplar import %t.json --seq-len 16 -o %t.model
// RUN: sed -e '$d' %t.model | sed -e '$d' > %t.unlike && cat %s >> %t.unlike && echo '}' >> %t.unlike
// RUN: poplar-opt %t.unlike --zero-plan-stages="stages=fast+slow schedule=interleaved chunks=3 global-batch=4" | FileCheck %s --check-prefix=UNLIKE
// RUN: sed -e 's/"vocab_size": 256/"vocab_size": 64/; s/"num_hidden_layers": 2/"num_hidden_layers": 1/' %examples/models/tiny-llama.json > %t.json
// RUN: poplar import %t.json --seq-len 16 -o %t.model
// RUN: sed -e '$d' %t.model | sed -e '$d' > %t.single && cat %s >> %t.single && echo '}' >> %t.single
// RUN: poplar-opt %t.single --zero-plan-stages="stages=fast+slow+slow global-batch=4" | FileCheck %s --check-prefix=SINGLE
//
// Stages as they are described. The samples are shared evenly among the
// pipelines; each takes as many micro-batches as its samples need...
//
// ENDS: zero.plan stage 0 global_batch 7 policy "stages" schedule "1f1b"
// ENDS-NEXT: zero.group units [0, 1] stage 0
// ENDS-NEXT: zero.group units [1, 4] stage 0
// ENDS-NEXT: zero.rank @fast node "n" micro_batch 2 steps 2 last 1
// ENDS-NEXT: zero.rank @fast node "n" micro_batch 2 steps 2 last 2
// ENDS-NEXT: zero.rank @slow node "m" group 1 micro_batch 2 steps 2 last 1
// ENDS-NEXT: zero.rank @slow node "m" group 1 micro_batch 2 steps 2 last 2
//
// ...units of stages that name no end are shared evenly, too...
//
// SHARED: zero.plan stage 1 global_batch 4 policy "stages" schedule "gpipe"
// SHARED-NEXT: zero.group units [0, 1] stage 1
// SHARED-NEXT: zero.group units [1, 2] stage 1
// SHARED-NEXT: zero.group units [2, 4] stage 1
// SHARED-NEXT: zero.rank @fast node "n" micro_batch 3 steps 2 last 1
// SHARED-NEXT: zero.rank @slow node "m" group 1
// SHARED-NEXT: zero.rank @fast node "n" group 2
//
// ...and where ranks meet in every micro-step, pipelines have as many of them.
//
// MEET: zero.rank @fast node "n" micro_batch 3 steps 2 last 0
// MEET-NEXT: zero.rank @fast node "n" micro_batch 3 steps 2 last 1
//
// Devices that share units are of one node, so one of @m is left for the last
// stage. Samples count once for all that share units.
//
// SHARE: zero.plan stage 0 global_batch 7
// SHARE-NEXT: zero.group units [0, 1] stage 0{{$}}
// SHARE-NEXT: zero.group units [1, 3] stage 0 tensor 2{{$}}
// SHARE-NEXT: zero.group units [3, 4] stage 0{{$}}
// SHARE-NEXT: zero.rank @fast node "n" micro_batch 2 steps 2 last 1{{$}}
// SHARE-NEXT: zero.rank @fast node "n" micro_batch 2 steps 2 last 2{{$}}
// SHARE-NEXT: zero.rank @slow node "m" group 1 micro_batch 2 steps 2 last 1{{$}}
// SHARE-NEXT: zero.rank @slow node "m" group 1 micro_batch 2 steps 2 last 1{{$}}
// SHARE-NEXT: zero.rank @slow node "o" group 1 micro_batch 2 steps 2 last 2{{$}}
// SHARE-NEXT: zero.rank @slow node "o" group 1 micro_batch 2 steps 2 last 2{{$}}
// SHARE-NEXT: zero.rank @slow node "m" group 2 micro_batch 2 steps 2 last 1{{$}}
// SHARE-NEXT: zero.rank @slow node "o" group 2 micro_batch 2 steps 2 last 2{{$}}
//
// ONE: zero.group units [0, 1] stage 0 tensor 2{{$}}
// ONE-NEXT: zero.group units [1, 4] stage 0 tensor 3{{$}}
//
// Pipelines of unlike kinds lie side by side, and take shares of the batch.
//
// BESIDE: zero.group units [0, 4] stage 1 tensor [1, 2, 1, 1]{{$}}
// BESIDE-NEXT: zero.rank @fast node "n" micro_batch 2 steps 3 last 2{{$}}
// BESIDE-NEXT: zero.rank @slow node "m" micro_batch 2 steps 2 last 2 state 2.0
// BESIDE-NEXT: zero.rank @slow node "m" micro_batch 2 steps 2 last 2 state 2.0
// BESIDE-NEXT: zero.rank @slow node "m" micro_batch 2 steps 1 last 2{{$}}
// BESIDE-NEXT: zero.rank @slow node "o" micro_batch 2 steps 1 last 2{{$}}
// PARTS: zero.group units [0, 2] stage 0 tensor [2, 1] parts [2, 1]{{$}}
// PARTS-NEXT: zero.group units [2, 4] stage 0{{$}}
// PARTS: zero.rank @fast node "n" group 1
// PARTS-NEXT: zero.rank @slow node "m" group 1
//
// Stages of several chunks share units evenly, too, unless they say where each
// ends.
//
// CHUNKS: zero.plan stage 0 global_batch 4 policy "stages" schedule "interleaved"
// CHUNKS-NEXT: zero.group units [0, 1, 2, 3] stage 0
// CHUNKS-NEXT: zero.group units [1, 2, 3, 4] stage 0
// EVEN: zero.group units [0, 2, 4, 6] stage 0
// EVEN-NEXT: zero.group units [2, 4, 6, 8] stage 0
// OWN: zero.group units [0, 3, 4, 7] stage 0
// OWN-NEXT: zero.group units [3, 4, 7, 8] stage 0
// FIRST: zero.group units [0, 3, 4, 6] stage 0
// FIRST-NEXT: zero.group units [3, 4, 6, 8] stage 0
//
// Layers need not be alike, and may be one. Logits of the width of activations
// make no layer of the head.
//
// UNLIKE: zero.group units [0, 1, 2, 3, 4, 5] stage 0
// UNLIKE-NEXT: zero.group units [1, 2, 3, 4, 5, 7] stage 0
// SINGLE: zero.group units [0, 1] stage 0
// SINGLE-NEXT: zero.group units [1, 2] stage 0
// SINGLE-NEXT: zero.group units [2, 3] stage 0
cluster.device_type @fast target "host:avx2-f32" memory 1073741824 precision f32
cluster.device_type @slow target "host:sse41-f32" memory 1073741824 precision f32
cluster.node @n devices [2 x @fast]
cluster.node @m devices [3 x @slow]
cluster.node @o devices [3 x @slow]
cluster.link inside nodes latency 1.0e-5 bandwidth 1.25e10
cluster.link between nodes latency 1.0e-5 bandwidth 1.25e10

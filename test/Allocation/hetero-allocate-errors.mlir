// RUN: poplar-opt %s --split-input-file --verify-diagnostics --hetero-allocate="global-batch=12"

// What is wrong with the options is said before what is wrong with the module.
// RUN: not poplar-opt %s --split-input-file --hetero-allocate 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=-1" 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 state=free" 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=4" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=-1" 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 policy=best" 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 policy=batch:card=x" 2>&1 | FileCheck %s --check-prefix=SHARES
// BATCH: error: needs the option global-batch, a number of samples
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 leave-out=t4" 2>&1 | FileCheck %s --check-prefix=LEAVE
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 recompute=keep" 2>&1 | FileCheck %s --check-prefix=RECOMPUTE
// STATE: error: option state must be equal, memory, replicated or auto, not 'free'
// LEAVE: error: option leave-out must be auto or none, not 't4'
// RECOMPUTE: error: option recompute must be auto or as-set, not 'keep'
// STAGE: error: option zero must be 0, 1, 2, 3 or auto, not '{{4|-1}}'
// POLICY: error: {{.*}}'best'
// SHARES: error: batch shares 'card=x': expected TYPE=SAMPLES, found 'card=x'

// What the policies refuse.
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=0 policy=homogeneous:gpu" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=0 policy=homogeneous:spare" 2>&1 | FileCheck %s --check-prefix=SPARE
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=1 policy=batch:card=8" 2>&1 | FileCheck %s --check-prefix=UNFIT
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=1 policy=whale" 2>&1 | FileCheck %s --check-prefix=FLOPS
// RUN: not poplar-opt %s --split-input-file --hetero-allocate="global-batch=12 zero=3 state=memory" 2>&1 | FileCheck %s --check-prefix=FREE
// UNKNOWN: error: has no plan in stage 0: homogeneous:gpu: there is no device type 'gpu'
// SPARE: error: has no plan in stage 0: homogeneous:spare: there are no devices
// UNFIT: error: has no plan in stage 1: batch:card=8: card: 8 samples on 2 devices make 4 on one, where 1 fits: they need
// FLOPS: error: has no plan in stage 1: whale: the FLOP/s of type 'card' are not known
// FREE: error: has no plan in stage 3: profile of 'card' has no memory figures, by which the state is to be shared

// expected-error @below {{has a zero.plan already}}
module {
  zero.plan stage 0 global_batch 1 policy "exact" {
    zero.rank @a node "n" micro_batch 1 steps 1 last 1
  }
}

// -----

// expected-error @below {{holds no cluster: no cluster.node has devices}}
module {
  nn.parameter @w : tensor<1000xf32> ones
  cluster.device_type @card target "host" memory 30000 precision f32
}

// -----

// expected-error @below {{holds no model: there is no nn.parameter}}
module {
  cluster.device_type @card target "host" memory 30000 precision f32
  cluster.node @n devices [@card]
}

// -----

// A message of one line, with the stage that lacks the least memory; what is in
// the way of the others is noted.

// expected-error @below {{has no plan in any stage; in stage 1: no device has memory for a single sample; 'card' comes closest}}
// expected-note @below {{in stage 0: types[0] 'card': needs 31000 bytes at its largest micro-batch (0), but has 30000 bytes}}
// expected-note @below {{in stage 2: device type 'card' has no profile of this model}}
// expected-note @below {{in stage 3: device type 'card' has no profile of this model}}
module {
  nn.parameter @w : tensor<1000xf32> ones
  cluster.device_type @card target "host" memory 30000 precision f32
  cluster.node @n devices [2 x @card]
  cluster.link inside nodes latency 0 bandwidth 1.0e30
  cluster.profile @card stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 31000 per_sample 3001
  cluster.profile @card stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 31000 per_sample 3001
}

// -----

// What would help, computed. 20 000 bytes are needed, of which stage 2 shards
// 12 000 and stage 3 all but 4000; and 1000 for a sample.

// expected-error @below {{has no plan in any stage; in stage 3: no device has memory for a single sample; 'card' comes closest, with 1000 bytes more memory it would hold one; it would fit with 1000 bytes more memory on each 'card', or with 1 more of 'card'}}
// expected-note @below {{in stage 0: types[0] 'card': needs 20000 bytes}}
// expected-note @below {{in stage 1: types[0] 'card': needs 16000 bytes}}
// expected-note @below {{in stage 2: types[0] 'card': needs 14000 bytes}}
module {
  nn.parameter @w : tensor<1000xf32> ones
  cluster.device_type @card target "host" memory 12000 precision f32
  cluster.node @n devices [2 x @card]
  cluster.link inside nodes latency 0 bandwidth 1.0e30
  cluster.profile @card stage 0 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 1000
  cluster.profile @card stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 1000
  cluster.profile @card stage 2 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 1000
  cluster.profile @card stage 3 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 20000 per_sample 1000
}

// -----

// A plan for one stage only.

module {
  nn.parameter @w : tensor<1000xf32> ones
  cluster.device_type @card target "host" memory 30000 precision f32
  cluster.device_type @spare target "host" memory 30000 precision f32
  cluster.node @n devices [2 x @card]
  cluster.link inside nodes latency 0 bandwidth 1.0e30
  cluster.profile @card stage 0 micro_batches [1, 8] seconds [0.5, 2.25]
  cluster.profile @card stage 1 micro_batches [1, 8] seconds [0.5, 2.25] memory fixed 28000 per_sample 6000
  cluster.profile @card stage 3 micro_batches [1, 8] seconds [0.5, 2.25]
}

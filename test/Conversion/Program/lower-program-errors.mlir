// RUN: poplar-opt %s --lower-program --split-input-file --verify-diagnostics

// expected-error @below {{has no exec.arena: run --plan-memory first}}
module {
}

// -----

module attributes {gpu.container_module} {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  gpu.module @kernels {
  }
  // expected-error @below {{has no exec.gpu_kernel: run --map-kernels-to-gpu}}
  exec.kernel @copy(%a: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample {
    exec.yield %a : tensor<?x4x8xf32>
  }
}

// -----

// An op that nobody has said of what it is at run time.

module {
  exec.arena fixed 1024 per_sample 0 live 0 transient 1024 bytes 0 live 0 scratch 1024 bytes 0
  exec.function step @infer() {
    // expected-error @below {{is not a call of the runtime or of a kernel}}
    %0 = arith.constant 0 : index
    exec.return
  }
}

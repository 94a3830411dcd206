// RUN: poplar-opt %s --zero-materialize --split-input-file --verify-diagnostics

// expected-error @below {{has no function @train: run --nn-differentiate first}}
module {
  nn.parameter @w : tensor<8xf32> ones
  zero.bucket @bucket [@w]
}

// -----

// expected-error @below {{has no function @train: run --nn-differentiate first}}
module {
  func.func private @train()
}

// -----

func.func @train() {
  return
}
// expected-error @below {{is there already: collectives are added once}}
func.func @update() {
  return
}

// -----

// expected-error @below {{has no zero.bucket: run --zero-form-buckets first}}
module {
  nn.parameter @w : tensor<8xf32> ones
  func.func @train() {
    return
  }
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 3
  nn.parameter @w : tensor<8xf32> ones
  // expected-error @below {{is sharded over 2 ranks, but the program is one of 3}}
  zero.bucket @bucket [@w] bounds [0, 16, 32]
  func.func @train() {
    return
  }
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 2
  nn.parameter @w : tensor<8xf32> ones
  // expected-error @below {{is sharded over 1 ranks, but the program is one of 2}}
  zero.bucket @bucket [@w]
  func.func @train() {
    return
  }
}

// -----

nn.parameter @w : tensor<8xf32> ones
nn.parameter @v : tensor<8xf32> ones
// expected-note @below {{the other bucket}}
zero.bucket @first [@w]
// expected-error @below {{holds @w, as another bucket does}}
zero.bucket @second [@v, @w]
func.func @train() {
  return
}

// -----

nn.parameter @w : tensor<8xf32> ones
// expected-error @below {{is in no zero.bucket}}
nn.parameter @v : tensor<8xf32> ones
zero.bucket @bucket [@w]
func.func @train() {
  return
}

// -----

// Stages 0 and 1 reduce a bucket when its gradients are complete.

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @w : tensor<8xf32> ones
  // expected-error @below {{has no gradients: no parameter of it is differentiated in @train}}
  zero.bucket @bucket [@w] bounds [0, 16, 32]
  func.func @train() {
    return
  }
}

// -----

// Stages 2 and 3 take the gradients of a micro-step from units.

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @bucket [@w] bounds [0, 32, 64]
  func.func @train(%dy: tensor<?x4x8xf32>, %x: tensor<?x4x8xf32>) {
    %0 = nn.get_gradient @w : tensor<8x8xf32>
    // expected-error @below {{uses a parameter outside of a unit; in stage 2 only units can}}
    %1 = nn.linear_grad_weight %dy, %x into %0 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nn.set_gradient @w, %1 : tensor<8x8xf32>
    return
  }
}

// -----

// A call that does not say that it adds to what it is given.

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
  nn.parameter @w : tensor<8xf32> ones
  zero.bucket @bucket [@w] bounds [0, 16, 32]
  func.func private @f(tensor<8xf32>) -> tensor<8xf32>
  func.func @train() {
    %0 = nn.get_gradient @w : tensor<8xf32>
    // expected-error @below {{uses a parameter outside of a unit; in stage 3 only units can}}
    %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>
    nn.set_gradient @w, %1 : tensor<8xf32>
    return
  }
}

// -----

// Buckets are gathered in the program's one working format.

module {
  zero.program "t" target "host" precision bf16 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
  nn.parameter @w : tensor<8xf32> ones
  zero.bucket @bucket [@w] bounds [0, 16, 32]
  func.func private @f(tensor<8xf32>)
  func.func @train() {
    // expected-error @below {{reads a parameter as 'tensor<8xf32>' in a program of precision bf16}}
    %0 = nn.get_parameter @w : tensor<8xf32>
    call @f(%0) : (tensor<8xf32>) -> ()
    return
  }
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @a : tensor<32xf32> ones
  // expected-error @below {{has the part @b, which is in no zero.bucket of stage 0 or 1}}
  nn.parameter @w : tensor<64xf32> ones {zero.parts = [@a, @b]}
  nn.parameter @b : tensor<32xf32> ones
  zero.bucket @bucket [@a] bounds [0, 16, 32]
  func.func @train() {
    return
  }
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @a : tensor<8xf32> ones
  nn.parameter @b : tensor<8xf32> ones
  // expected-error @below {{has the part @a of 8 elements, behind which there is a gap: expected a multiple of 32}}
  nn.parameter @w : tensor<16xf32> ones {zero.parts = [@a, @b]}
  zero.bucket @first [@a] bounds [0, 16, 32]
  zero.bucket @second [@b] bounds [0, 16, 32]
  func.func @train() {
    return
  }
}

// -----

// expected-error @below {{zero.parts must be a list of two or more parameters on a parameter}}
nn.parameter @w : tensor<16xf32> ones {zero.parts = [@a]}

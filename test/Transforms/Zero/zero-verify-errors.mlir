// RUN: poplar-opt %s --zero-verify --split-input-file --verify-diagnostics

// Another order.
module {
  module @a100.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
    nn.parameter @v : tensor<8x8xf32> normal std 0.02
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b0 [@v] bounds [0, 32, 64]
    zero.bucket @b1 [@w] bounds [0, 32, 64]
    func.func @train() {
      // expected-note @below {{where @a100.program does otherwise}}
      zero.all_reduce @b0 wire f32
      zero.all_reduce @b1 wire f32
      return
    }
  }
  module @t4.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
    nn.parameter @v : tensor<8x8xf32> normal std 0.02
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b0 [@v] bounds [0, 32, 64]
    zero.bucket @b1 [@w] bounds [0, 32, 64]
    func.func @train() {
      // expected-error @below {{@t4.program issues all_reduce of @b1 as f32 as collective 0 of @train, but @a100.program issues all_reduce of @b0 as f32: every rank has to issue the same ones}}
      zero.all_reduce @b1 wire f32
      zero.all_reduce @b0 wire f32
      return
    }
  }
}

// -----

// One collective less.
module {
  module @a100.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b [@w] bounds [0, 32, 64]
    func.func @train() {
      zero.all_reduce @b wire f32
      // expected-note @below {{where @a100.program does otherwise}}
      zero.all_reduce @b wire f32
      return
    }
  }
  module @t4.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b [@w] bounds [0, 32, 64]
    // expected-error @below {{@t4.program issues nothing as collective 1 of @train}}
    func.func @train() {
      zero.all_reduce @b wire f32
      return
    }
  }
}

// -----

// A function that only one has.
module {
  module @a100.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b [@w] bounds [0, 32, 64]
    // expected-note @below {{where @a100.program does otherwise}}
    func.func @train() {
      zero.all_reduce @b wire f32
      return
    }
  }
  // expected-error @below {{@t4.program has no function @train, which issues collectives}}
  module @t4.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @train() {
    // expected-error @below {{is in @train, which ranks run a different number of times in stage 1}}
    zero.reduce_scatter @b wire f32
    return
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @block() attributes {nn.unit} {
    // expected-error @below {{is inside a unit; units are what lies between collectives}}
    zero.all_reduce @b wire f32
    return
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 2 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @train() {
    %g = zero.gradients @b : tensor<8x8xf32>
    // expected-note @below {{started here}}
    %t = zero.start reduce_scatter @b wire f32 (%g : tensor<8x8xf32>)
    // expected-error @below {{uses gradients that a collective has not finished with}}
    call @backward(%g) : (tensor<8x8xf32>) -> ()
    // expected-note @below {{waited for here}}
    zero.wait %t
    return
  }
  func.func private @backward(tensor<8x8xf32>)
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 1 world_size 2
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func @update() {
    zero.norm
    // expected-note @below {{started here}}
    %t = zero.start all_gather @b wire f32
    // expected-error @below {{touches @b, which a collective has not finished with}}
    zero.adamw @b
    zero.wait %t
    return
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w]
  func.func @update() {
    // expected-error @below {{comes before zero.norm, which decides how much to clip}}
    zero.adamw @b
    zero.norm
    return
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  zero.bucket @b [@w]
  func.func @update() {
    zero.norm
    // expected-note @below {{updated here already}}
    zero.adamw @b
    // expected-error @below {{updates @b again}}
    zero.adamw @b
    return
  }
}

// -----

module @p {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 0 world_size 1
  nn.parameter @w : tensor<8x8xf32> normal std 0.02
  // expected-error @below {{is never updated in @update}}
  zero.bucket @b [@w]
  func.func @update() {
    zero.norm
    return
  }
}

// -----

// Shards are added across replicas once, when they are complete.
module {
  module @a.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 4 replicas 2
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b [@w] bounds [0, 32, 64]
    func.func @train() {
      // expected-error @below {{is in @train, but shards of gradients are added across replicas once an iteration, in its last micro-step}}
      zero.all_reduce @b wire f32
      return
    }
  }
}

// -----

module {
  module @a.program {
    zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 4 replicas 2
    nn.parameter @w : tensor<8x8xf32> normal std 0.02
    zero.bucket @b [@w] bounds [0, 32, 64]
    func.func @train_last(%g: tensor<8x8xf32>) {
      // expected-note @below {{started here}}
      %r = zero.start reduce_scatter @b wire f32 (%g : tensor<8x8xf32>)
      // expected-error @below {{touches @b, which a collective has not finished with}}
      %s = zero.start all_reduce @b wire f32
      zero.wait %r
      zero.wait %s
      return
    }
  }
}

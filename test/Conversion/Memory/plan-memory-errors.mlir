// RUN: poplar-opt %s --plan-memory --split-input-file --verify-diagnostics

exec.kernel @columns(%a0: tensor<?x4x8xf32>, %a1: tensor<8xf32>) -> tensor<8xf32>
    columns 8 {
  exec.yield %a1 : tensor<8xf32>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8xf32>
  // expected-error @below {{result #0 of type 'tensor<8xf32>' has no batch dimension and is not accumulated into a parameter's gradient: the arena has no place for it}}
  %0 = exec.dispatch @columns(%x, %w) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8xf32> ones

// -----

// expected-error @below {{has an argument without a batch dimension}}
func.func @infer(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> tensor<?x4x8xf32> {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// expected-error @below {{must return at most one value}}
func.func @infer(%x: tensor<?x4x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w]

// -----

func.func @infer(%x: tensor<?x4x8xf16>) -> tensor<?x4x8xf16> {
  %w = nn.get_parameter @w : tensor<8x8xf16>
  // expected-error @below {{has no product in f16 on this CPU}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf16>, tensor<8x8xf16>) -> tensor<?x4x8xf16>
  return %0 : tensor<?x4x8xf16>
}
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w]

// -----

// More bytes than 64 bits count.
func.func @infer(%x: tensor<?x2147483648x8xf32>) -> tensor<?x2147483648x2147483648xf32> {
  %w = nn.get_parameter @w : tensor<2147483648x8xf32>
  // expected-error @below {{result #0 of type 'tensor<?x2147483648x2147483648xf32>' takes more than 2^40 bytes a sample}}
  %0 = nn.linear %x, %w : (tensor<?x2147483648x8xf32>, tensor<2147483648x8xf32>) -> tensor<?x2147483648x2147483648xf32>
  return %0 : tensor<?x2147483648x2147483648xf32>
}
nn.parameter @w : tensor<2147483648x8xf32> ones
zero.bucket @b [@w]

// -----

// expected-error @below {{has an argument of more than 2^40 bytes a sample}}
func.func @infer(%x: tensor<?x2147483648x2147483648xf32>) -> tensor<?x2147483648x2147483648xf32> {
  return %x : tensor<?x2147483648x2147483648xf32>
}

// -----

// expected-error @below {{is neither a unit nor called by the runtime: mark it nn.unit, or name it by its role}}
func.func private @helper(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  return %x : tensor<?x4x8xf32>
}

// -----

// expected-error @below {{takes 5 inputs, but 'train' has 4 at most}}
func.func @train(%ids: tensor<?x4xi32>, %targets: tensor<?x4xi32>, %keys: tensor<?x2xi32>, %dloss: tensor<?x4xf32>, %x: tensor<?x4xf32>) {
  return
}

// -----

func.func @evaluate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  return %x : tensor<?x4x8xf32>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  // expected-error @below {{calls a function that is not a planned unit}}
  %0 = call @evaluate(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// expected-error @below {{has no body: its buffers cannot be planned}}
func.func private @helper(tensor<?x4x8xf32>) -> tensor<?x4x8xf32>

// -----

func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  // expected-error @below {{cannot be lowered: it is neither in a kernel nor a call of the runtime}}
  %0 = nn.silu %x : tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  // expected-error @below {{parameter "w" is in no bucket: run --zero-form-buckets first}}
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}
nn.parameter @w : tensor<8x8xf32> ones

// -----

func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  // expected-error @below {{operand #0 is not computed by the function}}
  return %x : tensor<?x4x8xf32>
}

// -----

// A unit's results are written where its caller says: each needs a place.
func.func @unit(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit} {
  // expected-error @below {{operand #0 has no buffer of its own}}
  return %x : tensor<?x4x8xf32>
}

// -----

func.func @unit(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x8xf32>) attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  // expected-error @below {{operand #1 has no buffer of its own}}
  return %0, %0 : tensor<?x4x8xf32>, tensor<?x4x8xf32>
}

// -----

// What a unit gives as a gradient is what it has accumulated into.
func.func @unit(%x: tensor<?x4x8xf32>, %dw: tensor<8x8xf32> {nn.gradient}, %dv: tensor<8x8xf32> {nn.gradient}) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {nn.unit} {
  %0 = nn.linear_grad_weight %x, %x into %dw : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // expected-error @below {{operand #0 is not accumulated into argument #1}}
  return %dv, %0 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

module {
  zero.program "t" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w] bounds [0, 32, 64]
func.func @update() {
  // expected-error @below {{works on the whole gradient of @a, which is sharded}}
  zero.all_reduce @a wire f32
  return
}
}

// -----

// expected-error @below {{has an argument without a batch dimension}}
func.func @infer(%x: i32) -> i32 {
  return %x : i32
}

// -----

// expected-error @below {{is a turn of chunk 1, but the program has 1}}
func.func @forward.chunk1(%x: tensor<?x4xf32>) attributes {zero.turn = 1 : i64} {
  return
}

// -----

nn.parameter @w : tensor<9x8xf32> ones
zero.bucket @bucket [@w]
func.func private @head(%x: tensor<?x4x8xf32>, %w: tensor<9x8xf32> {nn.parameter}) -> tensor<?x4x9xf32, #exec.row<32>> attributes {nn.unit} {
  // expected-error @below {{has padded rows, which libraries of CPUs are not told of}}
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<9x8xf32>) -> tensor<?x4x9xf32, #exec.row<32>>
  return %0 : tensor<?x4x9xf32, #exec.row<32>>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x9xf32, #exec.row<32>> {
  %w = nn.get_parameter @w : tensor<9x8xf32>
  %0 = call @head(%x, %w) : (tensor<?x4x8xf32>, tensor<9x8xf32>) -> tensor<?x4x9xf32, #exec.row<32>>
  return %0 : tensor<?x4x9xf32, #exec.row<32>>
}

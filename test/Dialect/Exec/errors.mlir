// RUN: poplar-opt %s --split-input-file --verify-diagnostics

// expected-error @below {{'diagonals' is an unknown kind of kernel}}
exec.kernel @kernel(%x: tensor<?x4xf32>) diagonals 4 {
  exec.yield
}

// -----

// expected-error @below {{'exec.kernel' op takes or returns 'f32', expected a tensor}}
exec.kernel @kernel(%x: f32) rows 4 {
  exec.yield
}

// -----

// expected-error @below {{has 1 results, but in_place lists 2}}
exec.kernel @kernel(%x: tensor<?x4xf32>) -> tensor<?x4xf32> rows 4 in_place [0, 0] {
  exec.yield %x : tensor<?x4xf32>
}

// -----

// expected-error @below {{result #0 cannot be in place of argument #1}}
exec.kernel @kernel(%x: tensor<?x4xf32>) -> tensor<?x4xf32> rows 4 in_place [1] {
  exec.yield %x : tensor<?x4xf32>
}

// -----

// expected-error @below {{result #0 cannot take over argument #1}}
exec.kernel @kernel(%x: tensor<?x4xf32>, %y: tensor<?x8xf32>) -> tensor<?x4xf32> rows 4 reuse [array<i64: 1>] {
  exec.yield %x : tensor<?x4xf32>
}

// -----

// expected-error @below {{must yield values of its result types}}
exec.kernel @kernel(%x: tensor<?x4xf32>) -> tensor<?x8xf32> rows 4 {
  exec.yield %x : tensor<?x4xf32>
}

// -----

func.func @call(%x: tensor<?x4xf32>) {
  // expected-error @below {{names @kernel, which is not an exec.kernel}}
  exec.dispatch @kernel(%x) : (tensor<?x4xf32>) -> ()
  return
}

// -----

exec.kernel @kernel(%x: tensor<?x4xf32>) -> tensor<?x4xf32> rows 4 {
  exec.yield %x : tensor<?x4xf32>
}
func.func @call(%x: tensor<?x8xf32>) {
  // expected-error @below {{does not have the types of @kernel}}
  %0 = exec.dispatch @kernel(%x) : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

exec.kernel @kernel(%x: tensor<?x4xf32>) -> tensor<?x4xf32> rows 4 {
  exec.yield %x : tensor<?x4xf32>
}
exec.function unit @unit(%x: memref<?x4xf32>) scratch 0 {
  // expected-error @below {{passes 1 buffers, but @kernel takes 2}}
  exec.dispatch @kernel(%x) : (memref<?x4xf32>) -> ()
  exec.return
}

// -----

// expected-error @below {{is a unit without `scratch`: give the bytes that it takes}}
exec.function unit @unit() {
  exec.return
}

// -----

// expected-error @below {{takes arguments, but is not a unit: list the offsets of its inputs in `inputs`}}
exec.function step @step(%x: memref<?x4xf32>) {
  exec.return
}

// -----

exec.function unit @unit() scratch 128 {
  exec.return
}
exec.function step @step() inputs <ids = 0> {
  %s = exec.buffer batch at 0 : memref<?x64xi8>
  // expected-error @below {{gives 64 bytes of scratch, but @unit needs 128 per sample}}
  exec.call @unit() scratch %s : (memref<?x64xi8>)
  exec.return
}

// -----

exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{begins at 32, expected a multiple of 64}}
  %s = exec.buffer batch at 32 : memref<?x64xi8>
  exec.return
}

// -----

exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{has no batch dimension, so it cannot lie in the region batch}}
  %s = exec.buffer batch at 0 : memref<64xi8>
  exec.return
}

// -----

exec.function step @step() inputs <ids = 0> {
  %s = exec.buffer fixed at 0 : memref<64xf32>
  // expected-error @below {{ends a value that is not a buffer with a lifetime}}
  exec.end %s : memref<64xf32>
  exec.return
}

// -----

exec.function step @step() inputs <ids = 0> {
  %s = exec.buffer fixed at 0 : memref<64xf32>
  // expected-error @below {{which does not lie in 'memref<64xf32>'}}
  %v = exec.view %s at 32 : memref<64xf32> to memref<8x8xf32>
  exec.return
}

// -----

exec.function unit @unit(%x: memref<?x4x8xf32>, %w: memref<8x16xf32>) scratch 0 {
  // expected-error @below {{has operands of shapes that do not match}}
  exec.product %x, %w into %x : (memref<?x4x8xf32>, memref<8x16xf32>, memref<?x4x8xf32>)
  exec.return
}

// -----

exec.function unit @unit(%x: memref<?x4x8xf32>, %w: memref<8x8xf32>) scratch 0 {
  // expected-error @below {{has the epilogue gelu_aux, which takes aux}}
  exec.product %x, %w into %x epilogue gelu_aux : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
  exec.return
}

// -----

exec.function unit @unit(%x: memref<?x4x512xf32>, %lse: memref<?x1x4xf32>) scratch 0 {
  // expected-error @below {{has heads of 512 elements; the kernel takes at most 256}}
  exec.attention %x, %x, %x into %x, %lse heads 1 kv_heads 1 scale 0.5 : (memref<?x4x512xf32>, memref<?x4x512xf32>, memref<?x4x512xf32>, memref<?x4x512xf32>, memref<?x1x4xf32>)
  exec.return
}

// -----

exec.function step @attention_grad() {
  %x = exec.buffer batch at 0 : memref<?x4x8xf32>
  %qkv = exec.buffer batch at 128 : memref<?x4x24xf32>
  %lse = exec.buffer batch at 512 : memref<?x2x4xf32>
  // expected-error@below {{'exec.attention_grad' op has delta of type 'memref<?x4x8xf32>', which should be that of lse, 'memref<?x2x4xf32>'}}
  exec.attention_grad %x, %x, %lse, %qkv delta %x into %qkv heads 2 kv_heads 2 scale 0.5 : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x2x4xf32>, memref<?x4x24xf32>, memref<?x4x8xf32>, memref<?x4x24xf32>)
  exec.return
}

// -----

nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @step() inputs <ids = 0> {
  %b = exec.buffer fixed at 0 : memref<32xf32>
  // expected-error @below {{works on 'memref<32xf32>', but @a has 64 elements}}
  %t = exec.start all_gather @a wire f32 %b : memref<32xf32>
  exec.wait %t
  exec.return
}

// -----

nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{has no buffer, but only an all_reduce of shards is without one}}
  %t = exec.start all_gather @a wire f32
  exec.wait %t
  exec.return
}

// -----

// expected-error @below {{names @a, which is not a zero.bucket}}
exec.copies @a f32

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
zero.bucket @a [@q] frozen quantized
// expected-error @below {{is of 'bf16', but @a is quantized}}
exec.copies @a bf16

// -----

nn.parameter @q : tensor<8x8x!nn.quantized<nf4>> ones frozen
zero.bucket @a [@q] frozen quantized
exec.function step @step() inputs <ids = 0> {
  %b = exec.buffer fixed at 0 : memref<64xui8>
  // expected-error @below {{takes 'memref<8x8x!nn.quantized<nf4>>' at 64, which does not lie in 'memref<64xui8>'}}
  %w = exec.view %b at 64 : memref<64xui8> to memref<8x8x!nn.quantized<nf4>>
  exec.return
}

// -----

// expected-error @below {{has transient memory or scratch beyond the 256 bytes of the fixed region}}
exec.arena fixed 256 per_sample 128 live 128 transient 128 bytes 256 live 256 scratch 256 bytes 0

// -----

exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{is of type 'memref<8xindex>', whose elements have no size in memory}}
  %b = exec.buffer fixed at 0 : memref<8xindex>
  exec.return
}

// -----

// expected-error @below {{takes or returns 'tensor<?x4xindex>', whose elements have no size in memory}}
exec.kernel @kernel(%x: tensor<?x4xindex>) rows 4 {
  exec.yield
}

// -----

// expected-error @below {{takes or returns 'tensor<?x9223372036854775807xf32>', of more than 2^40 bytes a sample}}
exec.kernel @kernel(%x: tensor<?x9223372036854775807xf32>) rows 4 {
  exec.yield
}

// -----

exec.function unit @unit(%x: memref<?x4x8xf32>, %w: memref<8x8xf32>, %b: memref<8xf32>, %y: memref<?x4x8xf32, strided<[64, 16, 1]>>) scratch 0 {
  // expected-error @below {{has padded rows that no product reads or writes}}
  exec.product %x, %w bias %b into %y : (memref<?x4x8xf32>, memref<8x8xf32>, memref<8xf32>, memref<?x4x8xf32, strided<[64, 16, 1]>>)
  exec.return
}

// -----

exec.function unit @unit(%x: memref<?x4x16xf16>, %w: memref<16x16xf16>, %y: memref<?x4x16xf16>) scratch 0 {
  // expected-error @below {{is not one of dense rows in f32 or bf16, as products in fp8 are}}
  exec.product %x, %w into %y fp8 : (memref<?x4x16xf16>, memref<16x16xf16>, memref<?x4x16xf16>)
  exec.return
}

// -----

// expected-error @below {{rows of 4, 8 cannot be 7 elements apart}}
func.func private @rows(%x: tensor<4x8xf32, #exec.row<7>>)

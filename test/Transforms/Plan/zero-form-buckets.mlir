// RUN: poplar-opt %s --zero-form-buckets --split-input-file | FileCheck %s
// RUN: poplar-opt %s --zero-form-buckets=min-bytes=256 --split-input-file | FileCheck %s --check-prefix=MERGE
// RUN: poplar-opt %s --zero-form-buckets=min-bytes=1000000 --split-input-file | FileCheck %s --check-prefix=ONE
// RUN: poplar-opt %s --zero-form-buckets=min-bytes=256 --split-input-file --remarks-filter=zero-form-buckets \
// RUN:   -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// A bucket per call of a unit, in the order of the calls, with its parameters
// in the order in which the unit takes them. @wte is used by two units, so it
// has a bucket of its own: neither unit's other parameters travel with it.
// A norm is 32 bytes, a block 288, @wte 512.

// CHECK:      zero.bucket @tied.0 [@wte]
// CHECK-NEXT: zero.bucket @embed.0 [@wpe]
// CHECK-NEXT: zero.bucket @block.0 [@w0, @b0]
// CHECK-NEXT: zero.bucket @block.1 [@w1, @b1]
// CHECK-NEXT: zero.bucket @norm.0 [@g]
// CHECK-NEXT: func.func @model

// At least 256 bytes: 128 of @embed.0 are joined by those of @block.0, whose
// bucket keeps the first name; @norm.0 is small and the last, so it joins what
// is before it. Nothing joins what is tied.

// MERGE:      zero.bucket @tied.0 [@wte]
// MERGE-NEXT: zero.bucket @embed.0 [@wpe, @w0, @b0]
// MERGE-NEXT: zero.bucket @block.1 [@w1, @b1, @g]
// MERGE-NEXT: func.func @model

// ONE:      zero.bucket @tied.0 [@wte]
// ONE-NEXT: zero.bucket @embed.0 [@wpe, @w0, @b0, @w1, @b1, @g]
// ONE-NEXT: func.func @model

// REMARK: remark: [Missed] BeginsBucket | Category:zero-form-buckets | Function=model | Bucket=tied.0, Bytes=512, Reason="it is the first of its kind"
// REMARK: remark: [Missed] BeginsBucket | Category:zero-form-buckets | Function=model | Bucket=embed.0, Bytes=128, Reason="several units use the parameter of the bucket before it"
// REMARK: remark: [Passed] JoinsBucket | Category:zero-form-buckets | Function=model | Bucket=embed.0, Bytes=288, Parameters=block.0
// REMARK: remark: [Missed] BeginsBucket | Category:zero-form-buckets | Function=model | Bucket=block.1, Bytes=288, Reason="the bucket before it is large enough"
// REMARK: remark: [Passed] JoinsBucket | Category:zero-form-buckets | Function=model | Bucket=block.1, Bytes=32, Parameters=norm.0

nn.parameter @wte : tensor<16x8xf32> ones
nn.parameter @wpe : tensor<4x8xf32> ones
nn.parameter @b0 : tensor<8xf32> zeros
nn.parameter @b1 : tensor<8xf32> zeros
nn.parameter @g : tensor<8xf32> ones
nn.parameter @w0 : tensor<8x8xf32> ones
nn.parameter @w1 : tensor<8x8xf32> ones
func.func private @embed(tensor<?x4xi32>, tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @block(tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @norm(tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @head(tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32> attributes {nn.unit}
func.func @model(%ids: tensor<?x4xi32>) -> tensor<?x4x16xf32> {
  // In an order that is not the users'.
  %g = nn.get_parameter @g : tensor<8xf32>
  %w1 = nn.get_parameter @w1 : tensor<8x8xf32>
  %b1 = nn.get_parameter @b1 : tensor<8xf32>
  %w0 = nn.get_parameter @w0 : tensor<8x8xf32>
  %b0 = nn.get_parameter @b0 : tensor<8xf32>
  %wpe = nn.get_parameter @wpe : tensor<4x8xf32>
  %wte = nn.get_parameter @wte : tensor<16x8xf32>
  %0 = call @embed(%ids, %wte, %wpe) : (tensor<?x4xi32>, tensor<16x8xf32>, tensor<4x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %w0, %b0) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %2 = call @block(%1, %w1, %b1) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %3 = call @norm(%2, %g) : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<?x4x8xf32>
  %wte.again = nn.get_parameter @wte : tensor<16x8xf32>
  %4 = call @head(%3, %wte.again) : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x16xf32>
  return %4 : tensor<?x4x16xf32>
}

// -----

// A unit takes one parameter twice: that is one user, and nothing is tied. An
// op that is no unit has a bucket, too, which is called after it. Bytes are
// those of f32, whatever parameters are read as.

// CHECK:      zero.bucket @mix.0 [@a]
// CHECK-NEXT: zero.bucket @linear.0 [@b]
// MERGE:      zero.bucket @mix.0 [@a]
// MERGE-NEXT: zero.bucket @linear.0 [@b]
// ONE:        zero.bucket @mix.0 [@a, @b]

nn.parameter @a : tensor<8x8xf32> ones
nn.parameter @b : tensor<8x8xf32> ones
func.func private @mix(tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16> attributes {nn.unit}
func.func @model(%x: tensor<?x4x8xbf16>) -> tensor<?x4x8xbf16> {
  %a = nn.get_parameter @a : tensor<8x8xbf16>
  %b = nn.get_parameter @b : tensor<8x8xbf16>
  %0 = call @mix(%x, %a, %a) : (tensor<?x4x8xbf16>, tensor<8x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  %1 = nn.linear %0, %b : (tensor<?x4x8xbf16>, tensor<8x8xbf16>) -> tensor<?x4x8xbf16>
  return %1 : tensor<?x4x8xbf16>
}

// -----

// Where the name is taken, a bucket gets another one.

// CHECK: zero.bucket @block.0_0 [@block.0]

nn.parameter @"block.0" : tensor<8x8xf32> ones
func.func private @block(tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @"block.0" : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// -----

// What is frozen has buckets of its own, behind the trained ones; small ones
// are merged with their like.

// CHECK:      zero.bucket @block.0 [@a0]
// CHECK-NEXT: zero.bucket @block.1 [@a1]
// CHECK-NEXT: zero.bucket @block.0.frozen [@f0] frozen
// CHECK-NEXT: zero.bucket @block.1.frozen [@f1] frozen

// ONE:      zero.bucket @block.0 [@a0, @a1]
// ONE-NEXT: zero.bucket @block.0.frozen [@f0, @f1] frozen

nn.parameter @f0 : tensor<8x8xf32> ones frozen
nn.parameter @a0 : tensor<8x8xf32> ones
nn.parameter @f1 : tensor<8x8xf32> ones frozen
nn.parameter @a1 : tensor<8x8xf32> ones
func.func private @block(tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %f0 = nn.get_parameter @f0 : tensor<8x8xf32>
  %a0 = nn.get_parameter @a0 : tensor<8x8xf32>
  %f1 = nn.get_parameter @f1 : tensor<8x8xf32>
  %a1 = nn.get_parameter @a1 : tensor<8x8xf32>
  %0 = call @block(%x, %f0, %a0) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %f1, %a1) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

// -----

// Quantised ones are a kind of their own.

// CHECK:      zero.bucket @block.0 [@a0]
// CHECK:      zero.bucket @block.0.frozen.quantized [@q0] frozen quantized
// CHECK-NEXT: zero.bucket @block.1.frozen.quantized [@q1] frozen quantized

// ONE:      zero.bucket @block.0 [@a0, @a1]
// ONE-NEXT: zero.bucket @block.0.frozen.quantized [@q0, @q1] frozen quantized

nn.parameter @q0 : tensor<8x8x!nn.quantized<nf4>> ones frozen
nn.parameter @a0 : tensor<8x8xf32> ones
nn.parameter @q1 : tensor<8x8x!nn.quantized<nf4>> ones frozen
nn.parameter @a1 : tensor<8x8xf32> ones
func.func private @block(tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func @model(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %q0 = nn.get_parameter @q0 : tensor<8x8x!nn.quantized<nf4>>
  %a0 = nn.get_parameter @a0 : tensor<8x8xf32>
  %q1 = nn.get_parameter @q1 : tensor<8x8x!nn.quantized<nf4>>
  %a1 = nn.get_parameter @a1 : tensor<8x8xf32>
  %0 = call @block(%x, %q0, %a0) : (tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = call @block(%0, %q1, %a1) : (tensor<?x4x8xf32>, tensor<8x8x!nn.quantized<nf4>>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}

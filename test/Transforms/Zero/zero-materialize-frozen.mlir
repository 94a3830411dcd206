// RUN: sed -e 's/STAGE/1/' %s | poplar-opt --zero-materialize --zero-verify | FileCheck %s --check-prefixes=ALL,LOW
// RUN: sed -e 's/STAGE/2/' %s | poplar-opt --zero-materialize --zero-verify | FileCheck %s --check-prefixes=ALL,LOW
// RUN: sed -e 's/STAGE/3/' %s | poplar-opt --zero-materialize --zero-verify | FileCheck %s --check-prefixes=ALL,HIGH

// RUN: sed -e 's/STAGE/3/; s/@f : tensor<8x8xf32>/@f : tensor<8x8x!nn.quantized<int8>>/; s/@frozen \[@f\] frozen bounds \[0, 32, 64\]/@frozen [@f] frozen quantized bounds [0, 64, 128]/' \
// RUN:   -e '/@block/s/tensor<8x8xf32>, tensor<8x8xf32>/tensor<8x8x!nn.quantized<int8>>, tensor<8x8xf32>/' %s \
// RUN:   | poplar-opt --zero-materialize --zero-verify | FileCheck %s --check-prefix=BYTES

// So it is where a plan rounds parameters on the wire.
// RUN: sed -e 's/STAGE/3/; s/wire f32 gradient_wire f32/wire i8 gradient_wire f32 lossy_parameters/; s/@f : tensor<8x8xf32>/@f : tensor<8x8x!nn.quantized<int8>>/; s/@frozen \[@f\] frozen bounds \[0, 32, 64\]/@frozen [@f] frozen quantized bounds [0, 64, 128]/' \
// RUN:   -e '/@block/s/tensor<8x8xf32>, tensor<8x8xf32>/tensor<8x8x!nn.quantized<int8>>, tensor<8x8xf32>/' %s \
// RUN:   | poplar-opt --zero-materialize --zero-verify | FileCheck %s --check-prefixes=BYTES,LOSSY
// LOSSY: zero.all_gather @trained wire i8

// Where it is quantised, its bytes are: 8 rows of 8, and 8 scales, at a multiple of 64.
// BYTES: zero.all_gather @frozen wire ui8 : tensor<8x8x!nn.quantized<int8>>

// A frozen bucket is gathered in stage 3, for the forward and for the backward
// pass, and takes part in nothing else.

// LOW-NOT:  all_gather @frozen
// HIGH:     func.func @train(
// HIGH:     zero.all_gather @frozen
// HIGH:     call @block(
// HIGH:     call @loss.backward
// HIGH:     zero.all_gather @frozen
// HIGH:     call @block.backward(

// ALL-NOT:  {{reduce_scatter|adamw|all_reduce}} @frozen
// ALL:      func.func @update(
// ALL-NEXT: zero.norm
// ALL-NEXT: zero.adamw @trained
// LOW-NEXT: zero.all_gather @trained
// ALL-NEXT: return

module {
  zero.program "host" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage STAGE world_size 2
nn.parameter @f : tensor<8x8xf32> ones frozen
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @trained [@w] bounds [0, 32, 64]
zero.bucket @frozen [@f] frozen bounds [0, 32, 64]
func.func private @block(tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @block.backward(tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32> {nn.gradient}) -> (tensor<?x4x8xf32>, tensor<8x8xf32>) attributes {nn.unit}
func.func private @loss(tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32> attributes {nn.unit}
func.func private @loss.backward(tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<?x4xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func private @noise(tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32> attributes {nn.unit}
func.func @train(%x: tensor<?x4x8xf32>, %targets: tensor<?x4xi32>, %dloss: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %f = nn.get_parameter @f : tensor<8x8xf32>
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %y = call @block(%x, %f, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %z = call @noise(%y, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %loss = call @loss(%z, %targets) : (tensor<?x4x8xf32>, tensor<?x4xi32>) -> tensor<?x4xf32>
  %dy = call @loss.backward(%z, %targets, %dloss) : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  %g = nn.get_gradient @w : tensor<8x8xf32>
  %dx:2 = call @block.backward(%x, %f, %w, %dy, %g) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<?x4x8xf32>, tensor<8x8xf32>) -> (tensor<?x4x8xf32>, tensor<8x8xf32>)
  nn.set_gradient @w, %dx#1 : tensor<8x8xf32>
  return %loss : tensor<?x4xf32>
}
}

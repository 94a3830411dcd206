// RUN: poplar-opt %s --zero-materialize | FileCheck %s

// Stage 3: the parameters are gathered before the unit that reads them, and the
// gradients are reduced to the ranks that own them.
module {
  zero.program "gpu" target "host" precision f32 wire f32 gradient_wire f32 recompute "keep" stage 3 world_size 2
  nn.parameter @w : tensor<8x8xf32> ones
  zero.bucket @b [@w] bounds [0, 32, 64]
  func.func private @block.backward(tensor<?x4x8xf32>, tensor<8x8xf32> {nn.parameter}, tensor<8x8xf32> {nn.gradient}) -> tensor<8x8xf32> attributes {nn.unit}
  func.func @train(%x: tensor<?x4x8xf32>) {
    %w = nn.get_parameter @w : tensor<8x8xf32>
    %g = nn.get_gradient @w : tensor<8x8xf32>
    %0 = call @block.backward(%x, %w, %g) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    nn.set_gradient @w, %0 : tensor<8x8xf32>
    return
  }
}

// The result:
//
// CHECK:   func.func @train(%arg0: tensor<?x4x8xf32>) {
// CHECK-NEXT:     %0 = zero.all_gather @b wire f32 : tensor<8x8xf32>
// CHECK-NEXT:     %1 = zero.gradients @b : tensor<8x8xf32>
// CHECK-NEXT:     %2 = call @block.backward(%arg0, %0, %1) : (tensor<?x4x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK-NEXT:     zero.reduce_scatter @b wire f32(%2 : tensor<8x8xf32>)
// CHECK-NEXT:     return
// CHECK-NEXT:   }
// CHECK:   func.func @update() {
// CHECK-NEXT:     zero.norm
// CHECK-NEXT:     zero.adamw @b
// CHECK-NEXT:     return
// CHECK-NEXT:   }

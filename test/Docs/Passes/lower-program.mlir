// RUN: poplar-opt %s --convert-nn-to-linalg --form-kernels --plan-memory --lower-kernels --lower-program | FileCheck %s

// A product is a call of the runtime with a descriptor of its sizes; a kernel is
// dispatched with the addresses of its buffers.
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @b [@w]
func.func private @block(%x: tensor<?x4x8xf32>, %w: tensor<8x8xf32> {nn.parameter}) -> tensor<?x4x8xf32> attributes {nn.unit} {
  %0 = nn.linear %x, %w : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  %1 = nn.silu %0 : tensor<?x4x8xf32>
  return %1 : tensor<?x4x8xf32>
}
func.func @infer(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %w = nn.get_parameter @w : tensor<8x8xf32>
  %0 = call @block(%x, %w) : (tensor<?x4x8xf32>, tensor<8x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// The result:
//
// CHECK:   func.func private @block.call(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: i64, %arg3: !llvm.ptr, %arg4: !llvm.ptr, %arg5: !llvm.ptr) {
// CHECK:     llvm.call @poplar_rt_gemm({{.*}})
// CHECK:     llvm.call @poplar_rt_dispatch({{.*}})

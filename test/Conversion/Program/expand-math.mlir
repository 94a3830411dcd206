// RUN: poplar-opt %s --expand-math | FileCheck %s
// RUN: poplar-opt %s --expand-math=has-exp2 | FileCheck %s --check-prefixes=CHECK,EXP2

// No calls of libm are left that LLVM could not vectorise.

// CHECK-LABEL: func @expand
// On a GPU, exp is a product and an instruction.
// EXP2: %[[LOG2E:.+]] = arith.constant 1.442{{[0-9]+}} : f32
// EXP2: %[[SCALED:.+]] = arith.mulf %arg0, %[[LOG2E]] : f32
// EXP2: llvm.call_intrinsic "llvm.exp2.f32"(%[[SCALED]])
// CHECK-NOT: math.{{exp|tanh|erf|log}}
// CHECK: return
func.func @expand(%x: f32) -> (f32, f32, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.tanh %x : f32
  %2 = math.erf %x : f32
  %3 = math.log %x : f32
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// These are instructions.
// CHECK-LABEL: func @keep
// CHECK: math.sqrt
// CHECK: math.absf
func.func @keep(%x: f32) -> (f32, f32) {
  %0 = math.sqrt %x : f32
  %1 = math.absf %x : f32
  return %0, %1 : f32, f32
}

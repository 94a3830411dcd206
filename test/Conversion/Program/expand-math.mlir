// RUN: poplar-opt %s --expand-math | FileCheck %s

// No calls of libm are left that LLVM could not vectorise.

// CHECK-LABEL: func @expand
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

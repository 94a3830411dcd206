// RUN: poplar-opt %s --expand-math --canonicalize | FileCheck %s

// The polynomial has no call.
func.func @f(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  return %0 : f32
}

// The result:
//
// CHECK:     %5 = math.floor %4 : f32
// CHECK:     %10 = math.fma %cst_5, %9, %3 : f32
// CHECK:     %23 = arith.bitcast %22 : i32 to f32
// CHECK:     return %24 : f32

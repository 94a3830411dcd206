// RUN: poplar-opt %s --add-optimizer | FileCheck %s

// The step is a function of flat arrays, whatever the parameters are.
nn.parameter @w : tensor<16x8xf32> ones
func.func @read() -> tensor<16x8xf32> {
  %0 = nn.get_parameter @w : tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}

// The result:
//
// CHECK:   exec.optimizer update @adamw
// CHECK:   func.func @adamw(%arg0: tensor<?xf32>, %arg1: tensor<?xf32>, %arg2: tensor<?xf32>, %arg3: tensor<?xf32>, %arg4: tensor<8xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>) {
// CHECK-NEXT:     %new_p, %new_m, %new_v = nn.adamw %arg0, %arg1, %arg2, %arg3 hyper %arg4 : (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<8xf32>) -> (tensor<?xf32>, tensor<?xf32>, tensor<?xf32>)
// CHECK-NEXT:     return %new_p, %new_m, %new_v : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
// CHECK-NEXT:   }

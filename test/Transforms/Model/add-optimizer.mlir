// RUN: poplar-opt %s --add-optimizer --split-input-file | FileCheck %s

// Parameters read as they are stored: no copy to convert.
nn.parameter @w : tensor<16x8xf32> ones
func.func @read() -> tensor<16x8xf32> {
  %0 = nn.get_parameter @w : tensor<16x8xf32>
  return %0 : tensor<16x8xf32>
}
// CHECK: exec.optimizer update @adamw{{$}}
// CHECK-LABEL: func @adamw
// CHECK-SAME: %[[P:[^:]+]]: tensor<?xf32>, %[[G:[^:]+]]: tensor<?xf32>, %[[M:[^:]+]]: tensor<?xf32>, %[[V:[^:]+]]: tensor<?xf32>, %[[H:[^:]+]]: tensor<8xf32>
// CHECK-NEXT: %[[NEW_P:.+]], %[[NEW_M:.+]], %[[NEW_V:.+]] = nn.adamw %[[P]], %[[G]], %[[M]], %[[V]] hyper %[[H]]
// CHECK-NEXT: return %[[NEW_P]], %[[NEW_M]], %[[NEW_V]]
// CHECK-NEXT: }
// CHECK-NEXT: {{^[}]}}

// -----

// A working copy in bf16 is rounded anew after each step. It is the only thing
// converted: @w is read in both formats.
nn.parameter @w : tensor<16x8xf32> ones
func.func @read() -> (tensor<16x8xbf16>, tensor<16x8xf32>) {
  %0 = nn.get_parameter @w : tensor<16x8xbf16>
  %1 = nn.get_parameter @w : tensor<16x8xf32>
  return %0, %1 : tensor<16x8xbf16>, tensor<16x8xf32>
}
// CHECK: exec.optimizer update @adamw round @convert_working
// CHECK-LABEL: func @adamw
// CHECK-LABEL: func @convert_working
// CHECK-SAME: %[[P:[^:]+]]: tensor<?xf32>) -> tensor<?xbf16>
// CHECK-NEXT: %[[R:.+]] = nn.cast %[[P]] : tensor<?xf32> to tensor<?xbf16>
// CHECK-NEXT: return %[[R]]
// CHECK-NEXT: }
// CHECK-NEXT: {{^[}]}}

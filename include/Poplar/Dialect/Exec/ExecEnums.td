//===- ExecEnums.td - Kinds of kernels, functions, buffers -*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECENUMS_TD
#define POPLAR_DIALECT_EXEC_EXECENUMS_TD

include "mlir/IR/EnumAttr.td"

def Exec_KernelKind : I32EnumAttr<"KernelKind",
    "how the work of a kernel is divided into independent parts", [
      I32EnumAttrCase<"Rows", 0, "rows">,
      I32EnumAttrCase<"Columns", 1, "columns">,
      I32EnumAttrCase<"Positions", 2, "positions">,
      I32EnumAttrCase<"Flat", 3, "flat">]> {
  let cppNamespace = "::poplar::exec";
}

def Exec_FunctionKind : I32EnumAttr<"FunctionKind",
    "who calls a function, and what it is given", [
      I32EnumAttrCase<"Unit", 0, "unit">,
      I32EnumAttrCase<"Step", 1, "step">,
      I32EnumAttrCase<"Turn", 2, "turn">]> {
  let cppNamespace = "::poplar::exec";
}

def Exec_Region : I32EnumAttr<"Region", "a part of a rank's memory", [
      I32EnumAttrCase<"Batch", 0, "batch">,
      I32EnumAttrCase<"Fixed", 1, "fixed">,
      I32EnumAttrCase<"Transient", 2, "transient">,
      I32EnumAttrCase<"Scratch", 3, "scratch">,
      I32EnumAttrCase<"Slot", 4, "slot">,
      I32EnumAttrCase<"Cache", 5, "cache">]> {
  let cppNamespace = "::poplar::exec";
}

def Exec_PortKind : I32EnumAttr<"PortKind",
    "a message of a turn, that comes or goes", [
      I32EnumAttrCase<"ActivationIn", 0, "activation_in">,
      I32EnumAttrCase<"ActivationOut", 1, "activation_out">,
      I32EnumAttrCase<"GradientIn", 2, "gradient_in">,
      I32EnumAttrCase<"GradientOut", 3, "gradient_out">]> {
  let cppNamespace = "::poplar::exec";
}

def Exec_Epilogue : I32EnumAttr<"Epilogue",
    "what a product does with a value before it stores it", [
      I32EnumAttrCase<"Store", 0, "store">,
      I32EnumAttrCase<"Gelu", 1, "gelu">,
      I32EnumAttrCase<"GeluAux", 2, "gelu_aux">,
      I32EnumAttrCase<"GeluGrad", 3, "gelu_grad">,
      I32EnumAttrCase<"BiasGradA", 4, "bias_grad_a">,
      I32EnumAttrCase<"BiasGradB", 5, "bias_grad_b">]> {
  let cppNamespace = "::poplar::exec";
}

#endif // POPLAR_DIALECT_EXEC_EXECENUMS_TD

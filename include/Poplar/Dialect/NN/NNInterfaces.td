//===- NNInterfaces.td - Differentiation and cost ---------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNINTERFACES_TD
#define POPLAR_DIALECT_NN_NNINTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let description = [{
    An op that can build its own vector-Jacobian product. The values of the
    forward pass it refers to in doing so (operands or results) are its
    residuals; the differentiation pass decides which of them are kept and
    which are recomputed, so an implementation just uses what it needs.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<[{
      Adds, through `grads`, the cotangent of every differentiable operand.
      `grads.cotangent(result)` is the cotangent of a result, null where the
      result influences nothing. Called with the builder after every use.
      Fails, with a diagnostic at the op, where no derivative exists.
    }], "::llvm::LogicalResult", "buildVJP",
      (ins "::mlir::OpBuilder &":$builder,
           "::poplar::nn::Gradients &":$grads)>
  ];
}

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let description = [{
    What an op costs per sample (one row of the dynamic batch dimension), for
    the memory plan, the profile and the planner's roofline.
  }];
  let cppNamespace = "::poplar::nn";
  let methods = [
    InterfaceMethod<"Cost of this op for one sample.",
      "::poplar::nn::OpCost", "getCost", (ins)>
  ];
}

#endif // POPLAR_DIALECT_NN_NNINTERFACES_TD

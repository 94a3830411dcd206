//===- ExecInterfaces.td - How ops on tensors become calls -*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECINTERFACES_TD
#define POPLAR_DIALECT_EXEC_EXECINTERFACES_TD

include "mlir/IR/OpBase.td"

def RuntimeCallOpInterface : OpInterface<"RuntimeCallOpInterface"> {
  let cppNamespace = "::poplar::exec";
  let description = [{
    An op on tensors that runs as calls on buffers: what `--plan-memory` has to
    know of an op that is in no kernel.
  }];
  let methods = [
    InterfaceMethod<[{
        The operand that result `index` is accumulated into and whose buffer it
        shares; null if the result has a buffer of its own.
      }], "::mlir::OpOperand *", "getAccumulator", (ins "unsigned":$index),
      /*methodBody=*/"", /*defaultImplementation=*/"return nullptr;">,
    InterfaceMethod<[{
        The type, as of a result, of memory that the calls need while they run,
        besides operands and results; null if they need none.
      }], "::mlir::RankedTensorType", "getScratchType", (ins),
      /*methodBody=*/"", /*defaultImplementation=*/"return {};">,
    InterfaceMethod<[{
        Creates the calls. `getBuffer` gives the buffer of an operand or a
        result, and a null value for a null value. `scratch` is a buffer of
        `getScratchType()`, or null.
      }], "void", "emitCalls", (ins "::mlir::OpBuilder &":$builder,
        "::llvm::function_ref<::mlir::Value(::mlir::Value)>":$getBuffer,
        "::mlir::Value":$scratch)>
  ];
}

def ProgramCallOpInterface : OpInterface<"ProgramCallOpInterface"> {
  let cppNamespace = "::poplar::exec";
  let description = [{
    An op of an exec.function: what `--lower-program` translates it to.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the calls of the runtime and of the kernel library
        (Conversion/FunctionLowering.h).
      }], "void", "lowerCall", (ins "::poplar::FunctionLowering &":$lowering)>,
    InterfaceMethod<[{
        Bytes of scratch that a library needs for this op, with micro-batches of
        up to `maxBatch` samples and `threads` threads. Fails, with a diagnostic
        at the op, if there is no code for it on this machine.
      }], "::mlir::FailureOr<int64_t>", "getLibraryScratch",
      (ins "int64_t":$maxBatch, "int":$threads),
      /*methodBody=*/"", /*defaultImplementation=*/"return int64_t(0);">
  ];
}

#endif // POPLAR_DIALECT_EXEC_EXECINTERFACES_TD

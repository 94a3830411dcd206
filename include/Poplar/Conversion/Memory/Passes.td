//===- Passes.td - From tensors to the arena ---------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_MEMORY_PASSES_TD
#define POPLAR_CONVERSION_MEMORY_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "Place every buffer in a static arena";
  let description = [{
    Functions of tensors become `exec.function`s, lists of calls on buffers.
    Offsets are linear in the micro-batch: peak_bytes(b) = fixed + b * per_sample
    (`exec.arena`).
  }];
  let dependentDialects = ["::poplar::exec::ExecDialect"];
  let options = [
    Option<"threads", "threads", "int", "1",
           "Threads that share the libraries' scratch">,
    Option<"maxBatch", "max-batch", "int64_t", "64",
           "Largest micro-batch the libraries' scratch must serve">,
    Option<"workspaceBytes", "workspace-bytes", "int64_t", "-1",
           "Bytes of the libraries' scratch; -1 to ask the one at hand">,
    Option<"libraryAttention", "library-attention", "bool", "false",
           "Leave attention to a library of the GPU where it can compute it, and "
           "plan the memory that it works in">
  ];
}

def ExecVerify : Pass<"exec-verify", "::mlir::ModuleOp"> {
  let summary = "Check the places of buffers";
  let description = [{
    Closes the memory level. Each buffer lies inside its region. Buffers that are
    alive at the same time do not overlap. No buffer is used after its end, or
    while a collective uses it. Every collective has exactly one wait.
  }];
}

#endif // POPLAR_CONVERSION_MEMORY_PASSES_TD

//===- KernelObjects.h - Kernels of hosts as objects ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A kernel depends on shapes and formats, but not on batches, ranks or the
// schedule. Each is compiled by itself, with what it calls, and found again in
// the cache when another plan, or another model, needs the same.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_KERNELOBJECTS_H
#define POPLAR_LIB_TARGET_KERNELOBJECTS_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace poplar {

/// A file of an archive.
struct KernelObject {
  std::string symbol, code;
};

/// Optimises `module` and generates code for it.
llvm::Expected<std::string> generateCode(llvm::Module &module,
                                         llvm::TargetMachine &machine);

/// Takes the kernels out of `module`, the functions whose addresses are given
/// to poplar_rt_dispatch, and compiles them on all cores, where the cache does
/// not have them. What remains calls them by their new names, which say what
/// they compute and end with a hash of it. `makeMachine` is called once per
/// kernel, from several threads.
llvm::Expected<std::vector<KernelObject>> compileKernels(
    llvm::Module &module,
    llvm::function_ref<std::unique_ptr<llvm::TargetMachine>()> makeMachine);

} // namespace poplar

#endif // POPLAR_LIB_TARGET_KERNELOBJECTS_H

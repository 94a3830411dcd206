//===- Optimize.h - LLVM's optimisations for a machine ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_TARGET_OPTIMIZE_H
#define POPLAR_LIB_TARGET_OPTIMIZE_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace poplar {

/// Runs LLVM's -O3 pipeline, tuned for `machine`, over `module`.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace poplar

#endif // POPLAR_LIB_TARGET_OPTIMIZE_H

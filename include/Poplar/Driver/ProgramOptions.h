//===- ProgramOptions.h - How a program is compiled -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_PROGRAMOPTIONS_H
#define POPLAR_DRIVER_PROGRAMOPTIONS_H

#include "Poplar/Dialect/Zero/PlanFacts.h"
#include "Poplar/Target/Build.h"

namespace poplar {

/// Fails, with `error` set, if LLVM does not know the processor asked for.
bool checkCPU(const CodeOptions &options, std::string &error);

/// The ranks of a plan that run a program, ascending.
std::vector<int64_t> findRanks(const Plan &plan, mlir::ModuleOp program);

/// Fills in how such a program is to be compiled. Fails, with `error` set,
/// if there is no code generator for it.
bool chooseOptions(mlir::ModuleOp program, BuildOptions &options,
                   std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_PROGRAMOPTIONS_H

//===- BuildOptions.h - Options of build and plan ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_BUILDOPTIONS_H
#define POPLAR_TOOLS_BUILDOPTIONS_H

#include "Poplar/Dialect/Zero/Zero.h"
#include "Poplar/Target/Host.h"
#include <CLI/CLI.hpp>

/// Options that say how one device, the machine at hand, is compiled for.
void addHostOptions(CLI::App *command, poplar::HostOptions &options);

/// Options that say when collectives are started and waited for.
void addScheduleOptions(CLI::App *command, poplar::HostOptions &options);

/// Fails, with `error` set, if LLVM does not know the processor asked for.
bool checkCPU(const poplar::HostOptions &options, std::string &error);

/// Whether a rank of the plan runs a program.
bool isOf(poplar::zero::RankOp rank, mlir::ModuleOp program);

/// Fills in how such a program is to be compiled. Fails, with `error` set,
/// if there is no code generator for it.
bool chooseOptions(mlir::ModuleOp program, poplar::HostOptions &options,
                   std::string &error);

#endif // POPLAR_TOOLS_BUILDOPTIONS_H

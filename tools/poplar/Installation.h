//===- Installation.h - Where poplar finds its libraries --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_INSTALLATION_H
#define POPLAR_TOOLS_INSTALLATION_H

#include "Poplar/Target/Build.h"

/// The executable that is running.
std::string getOwnProgram();

/// Fills in the kernel library and the runtime, which lie beside the
/// executable's directory: bin/poplar, lib/poplar/kernels.bc,
/// lib/poplar/runtime-host.
void locateLibraries(poplar::CodeOptions &options);

#endif // POPLAR_TOOLS_INSTALLATION_H

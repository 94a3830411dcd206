//===- Initialization.h - Random parameters to start from -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_INITIALIZATION_H
#define POPLAR_RUNTIME_INITIALIZATION_H

#include <cstdint>

namespace poplar::runtime {

class Executor;

/// Fills the parameters by the initial distributions of the program, keyed by
/// (Seed, parameter, element).
void initializeParameters(Executor &Exec, uint64_t Seed,
                          bool OnlyTrained = false);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_INITIALIZATION_H

//===- Trainer.h - The training loop ----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TRAINER_H
#define POPLAR_RUNTIME_TRAINER_H

#include "Poplar/Runtime/ABI.h"
#include "job/Options.h"

#include <functional>

namespace poplar::runtime {

/// Trains as the options say; failures are Errors.
void runTraining(const PoplarProgram &Program, const Options &O);

/// The loss and the perplexity of a checkpoint on data, on stdout.
void runEvaluation(const PoplarProgram &Program, const Options &O);

/// Continues a prompt from a checkpoint, on stdout.
void runSampling(const PoplarProgram &Program, const Options &O);

/// Measures how long micro-steps of growing size and the optimizer's step take
/// on the options' rank, which runs alone; writes it as a file of profiles
/// (docs/cluster-file.md).
void runProfile(const PoplarProgram &Program, const Options &O);

/// Measures the links between the ranks' nodes, and the collectives; writes the
/// former as a cluster file does (docs/cluster-file.md).
void runLinks(const PoplarProgram &Program, const Options &O);

/// Prints the memory plan and the parameters.
void printInfo(const PoplarProgram &Program, const Options &O);

/// The whole executable: parses, loads the program, runs, reports; returns the
/// exit status. `Load` may throw an Error.
int runMain(const std::function<const PoplarProgram &()> &Load, int Argc,
            const char *const *Argv);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TRAINER_H

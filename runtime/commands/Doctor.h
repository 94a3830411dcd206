//===- Doctor.h - Whether a job can run -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DOCTOR_H
#define POPLAR_RUNTIME_DOCTOR_H

#include "Poplar/Runtime/ABI.h"
#include "job/Options.h"

namespace poplar::runtime {

/// Compares what all ranks have with each other and with what the plan needs,
/// and prints it; then lets them add up a short array, as training will do it.
/// Failures are Errors that name the ranks.
void runDoctor(const PoplarProgram &Program, const Options &O);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_DOCTOR_H

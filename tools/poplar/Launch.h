//===- Launch.h - How a job is started --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_LAUNCH_H
#define POPLAR_TOOLS_LAUNCH_H

#include "Poplar/Dialect/Zero/Zero.h"
#include <string>

/// Writes what starts the executables of a plan, beside them in `directory`:
/// launch.sh (mpirun, one program per device type), rank.sh (for launchers that
/// start the same command everywhere), job.conf (for srun --multi-prog) and
/// ranks.txt (who is what). Returns false if it cannot, with
/// `error` set.
bool writeLaunchFiles(poplar::zero::PlanOp plan, const std::string &directory,
                      std::string &error);

#endif // POPLAR_TOOLS_LAUNCH_H

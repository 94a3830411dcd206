//===- Launch.h - How a job is started --------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_LAUNCH_H
#define POPLAR_DRIVER_LAUNCH_H

#include "Poplar/Dialect/Zero/Zero.h"
#include <string>

namespace poplar {

/// In a job's directory: where the plug-ins are that carry its messages.
inline constexpr llvm::StringLiteral kPluginDirectory = "lib";
inline constexpr llvm::StringLiteral kTokenizerDirectory = "tokenizer";

/// Whether a job's directory has a file of its own of this name, or of one that
/// differs by case, so that no program can have it.
bool isJobFile(llvm::StringRef name);

/// Copies the plug-ins that were built, the libraries that an installation
/// brings along for executables, and start-ranks.py from the directory of
/// libraries to that of a job, so that the job needs nothing of the place where
/// it was made.
bool copyPlugins(const std::string &libraries, const std::string &directory,
                 std::string &error);

/// Copies the tokenizer that `program` was imported with, and the files that
/// belong to it, to the directory `job`/tokenizer, if there is one and it is
/// still the same.
bool copyTokenizer(mlir::ModuleOp program, const std::string &job,
                   std::string &error);

/// Writes what starts the executables of a plan, beside them in `directory`:
/// launch.sh (mpirun, one program per device type), rank.sh (for launchers that
/// start the same command everywhere), job.conf (for srun --multi-prog),
/// ranks.txt (who is what) and slurm.sh (for sbatch), which is `slurmScript`,
/// or none if that is empty. Returns false if it cannot, with `error` set.
bool writeLaunchFiles(zero::PlanOp plan, const std::string &directory,
                      const std::string &slurmScript, std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_LAUNCH_H

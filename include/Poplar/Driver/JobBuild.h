//===- JobBuild.h - Executables of a plan -----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_JOBBUILD_H
#define POPLAR_DRIVER_JOBBUILD_H

#include "Poplar/Driver/Compilation.h"
#include <optional>

namespace poplar {

/// What `poplar build` is asked for.
struct JobRequest {
  /// The file that was loaded, and the directory to write to.
  std::string model, output;
  BuildOptions build;
  /// Where to stop: the module of each device type at this level takes the
  /// place of its executable, and no other file of a job is written.
  std::optional<IRLevel> stopAfter;
  /// Where Slurm has the device types, as parseSlurmPlaces() reads it.
  std::vector<std::string> slurm;
};

/// Builds a model that one device trains alone, into `output`/host/train. What
/// there is to say goes to `print`. Returns false on failure, with an error
/// said or in `compilation`.
bool buildAlone(Compilation &compilation, const JobRequest &request,
                llvm::function_ref<void(const std::string &)> print);

/// Builds one executable per device type of a plan, in parallel, and what
/// starts them. The same holds of `print` and of failures.
bool buildPlanned(Compilation &compilation, const JobRequest &request,
                  llvm::function_ref<void(const std::string &)> print);

} // namespace poplar

#endif // POPLAR_DRIVER_JOBBUILD_H

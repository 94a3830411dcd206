//===- SlurmScript.h - A job as Slurm starts it -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slurm clusters often have a partition per type of GPU. A job of several types
// is then a heterogeneous job: one component for each row of equal nodes of a
// partition, and one step over all of them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_SLURMSCRIPT_H
#define POPLAR_DRIVER_SLURMSCRIPT_H

#include "Poplar/Dialect/Zero/Zero.h"
#include <map>
#include <string>
#include <vector>

namespace poplar {

/// Where Slurm has the devices of a type.
struct SlurmPlace {
  std::string partition;
  /// Slurm's name for the type of GPU, "" where the partition says enough.
  std::string gpu;
};

/// By the name of the device type.
using SlurmPlaces = std::map<std::string, SlurmPlace>;

/// Reads `TYPE=PARTITION` and `TYPE=PARTITION:GPU`. Returns false with `error`
/// set if a text is none, or a type has two.
bool parseSlurmPlaces(const std::vector<std::string> &texts,
                      SlurmPlaces &places, std::string &error);

/// The batch script of a job, in `script`. `isGPU` has the device types of the
/// plan. Returns false with `error` set if `places` does not fit the plan.
bool formatSlurmScript(zero::PlanOp plan, const SlurmPlaces &places,
                       const std::map<std::string, bool> &isGPU,
                       std::string &script, std::string &error);

} // namespace poplar

#endif // POPLAR_DRIVER_SLURMSCRIPT_H

//===- AutoPlanning.h - The fastest plan of any kind ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_AUTOPLANNING_H
#define POPLAR_DRIVER_AUTOPLANNING_H

#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Driver/HybridPlanning.h"

namespace poplar {

/// The best plan of a kind.
struct PlanOfKind {
  /// The policy that makes such plans.
  std::string policy;
  /// An iteration, simulated from the programs. None if there is no plan, for
  /// the reason in `error`.
  std::optional<double> seconds;
  std::string error;
};

struct AutoReport {
  std::vector<PlanOfKind> kinds;
  /// The fastest of them.
  size_t chosen = 0;
};

/// Makes the best plan of ZeRO alone, of pipeline stages (hybrid) and of
/// pipelines over distant devices (geo), simulates the programs of each, and
/// adds the fastest to the module. `allocation` and `build` are options of the
/// first kind. Fails, with `compilation.error` set, if there is none.
bool planAuto(Compilation &compilation, const StagedRequest &request,
              const HeteroAllocateOptions &allocation,
              const BuildOptions &build, AutoReport &report);

/// A line for each kind: its seconds, or why there is no such plan.
std::string formatKinds(const AutoReport &report);
std::string formatAutoJSON(const AutoReport &report);

} // namespace poplar

#endif // POPLAR_DRIVER_AUTOPLANNING_H

//===- PlanOptions.h - The options of poplar plan ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_POPLAR_PLANOPTIONS_H
#define POPLAR_TOOLS_POPLAR_PLANOPTIONS_H

#include "BuildOptions.h"
#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Driver/ObjectivePlanning.h"
#include "Poplar/Transforms/Plan/Passes.h"

namespace poplar {

struct PlanArguments {
  std::string model, cluster, profiles, globalBatch, output, json, trace;
  /// The value of --batch.
  std::string batches;
  bool explain = false;
  /// --recompute is given.
  bool fixesRecompute = false;
  /// What is planned though it cannot be built: "devices", "all"; empty for
  /// nothing.
  std::string hypothetical;
  /// --policy or --batch is given.
  bool namesPolicy = false;
  /// A given option that only plans of ZeRO alone have.
  std::string zeroOption;
  Objective objective;
  /// 0 where they are not given.
  int tensorDegree = 0, chunks = 0;
  /// When the search ends; none if it ends when it has tried what it can.
  std::optional<double> seconds;
  /// Pipeline stages that the user describes.
  ZeroPlanStagesOptions pipeline;
  HeteroAllocateOptions allocation;
  BuildOptions build;

  /// Policies of pipeline stages.
  bool isHybrid() const {
    return allocation.policy == "hybrid" || allocation.policy == "geo";
  }
  /// The policy that plans by all others.
  bool isAuto() const { return allocation.policy == "auto"; }
  bool plansAllDevices() const { return !hypothetical.empty(); }
  bool plansAllStages() const { return hypothetical == "all"; }
  bool triesAllKinds() const { return isAuto() && zeroOption.empty(); }
};

/// Adds the options to a command that `args` outlives.
void addPlanOptions(CLI::App *command, PlanArguments &args);

/// What of the parsed options has no use, or contradicts others; empty if
/// nothing. Completes `args`.
std::string checkPlanOptions(const CLI::App &command, PlanArguments &args);

} // namespace poplar

#endif // POPLAR_TOOLS_POPLAR_PLANOPTIONS_H

//===- AutoPlanning.h - The fastest plan of any kind ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `poplar plan` does unless a policy is named: it makes the best plan of
// each kind, simulates the programs of each, and takes the fastest.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DRIVER_AUTOPLANNING_H
#define POPLAR_DRIVER_AUTOPLANNING_H

#include "Poplar/Allocation/HeteroAllocate.h"
#include "Poplar/Driver/HybridPlanning.h"
#include <functional>

namespace poplar {

struct AutoRequest : StagedRequest {
  /// Options of plans of ZeRO alone.
  HeteroAllocateOptions allocation;
  BuildOptions build;
  /// An option that only plans of ZeRO alone have: no other kind is tried.
  std::string zeroOption;
  /// Explain the chosen plan as its own policy does.
  bool explains = false;
  /// Called with what is planned next: "pipeline stages".
  std::function<void(const std::string &)> enter = [](const std::string &) {};
};

/// The best plan of a kind.
struct PlanOfKind {
  /// The policy that makes such plans.
  std::string policy;
  /// An iteration, simulated from the programs; from the costs of units where
  /// they cannot be built. None if there is no plan, for the reason in `error`.
  std::optional<double> seconds;
  std::string error;
  /// By the closed form: seconds of the plan, and those that no plan of the
  /// kind takes less than. The latter is known also where there is no plan, as
  /// none takes less than one of another kind.
  std::optional<double> predicted, lowerBound;
  /// Devices that take part, and what one of them does on average, in seconds
  /// of an iteration. Not known of plans that cannot be built.
  struct Use {
    int64_t devices = 0;
    double computing = 0, waiting = 0, communicating = 0;
  };
  std::optional<Use> use;
};

struct AutoReport {
  std::vector<PlanOfKind> kinds;
  /// The fastest of them.
  size_t chosen = 0;
  /// The request's deadline is over: not all may have been tried.
  bool isOver = false;
  /// No plan of any kind is predicted to take less.
  std::optional<double> getLowerBound() const;
  Buildability buildability;
  /// The module has it. Else it is of columns (HybridColumns.h), of which the
  /// explanation tells.
  bool isInModule = true;
  /// An iteration of the chosen plan, if the request asks for it.
  Timeline timeline;
  /// If the request asks for them, or the plan is not in the module: what the
  /// policy of the chosen plan says of it, as text and as JSON.
  std::string explanation, json;
};

/// Makes the best plan of ZeRO alone, of pipeline stages (hybrid) and of
/// pipelines over distant devices (geo), and adds the fastest to the module.
/// Fails, with an error said or in `compilation`, if there is none.
bool planAuto(Compilation &compilation, const AutoRequest &request,
              AutoReport &report);

/// A line for each kind: its seconds and why it is slower than the chosen one,
/// or why there is no such plan.
std::string formatKinds(const AutoReport &report);
/// A JSON object, formatted with an indentation of 2, with more members behind
/// its own, whose order stays.
std::string addMembers(llvm::StringRef object, llvm::json::Object members);
/// The JSON of the chosen plan with a member `kinds`.
std::string formatAutoJSON(const AutoReport &report);

} // namespace poplar

#endif // POPLAR_DRIVER_AUTOPLANNING_H

//===- HybridReport.h - A hybrid plan, to be read ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `poplar plan --policy hybrid` says (docs/hybrid.md).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TARGET_HYBRIDREPORT_H
#define POPLAR_TARGET_HYBRIDREPORT_H

#include "Poplar/Planner/HybridModel.h"
#include "Poplar/Planner/HybridReview.h"
#include "Poplar/Planner/PipelineSimulation.h"

namespace poplar {

/// A plan and all that was found out about it.
struct HybridReport {
  HybridModel model;
  HybridProblem problem;
  /// By type of the problem: its devices, and the name of their type.
  std::vector<HybridCluster::Devices> devices;
  std::vector<std::string> typeNames;
  /// Has a plan.
  HybridSearchResult search;
  PipelineSimulation simulation;
  HybridReview review;
  /// Parallel to HybridReview::alone.
  std::vector<std::string> aloneNames;
  /// By group and lane, ranks of the cluster: those of a pipeline together.
  std::vector<std::vector<std::vector<int>>> ranks;
  /// Relative, of what was estimated; 0 if all was measured.
  double uncertainty = 0;
  /// Of the best plan without pipelines, by its closed form and simulated; or
  /// why there is none.
  std::optional<double> pureSeconds;
  double pureSimulatedSeconds = 0;
  int pureStage = 0;
  std::string pureError;

  /// By simulation, in which a plan without pipelines hides communication.
  bool isFasterPure() const {
    return pureSeconds && pureSimulatedSeconds < simulation.seconds;
  }
};

std::string formatHybridText(const HybridReport &report);
std::string formatHybridJSON(const HybridReport &report);

} // namespace poplar

#endif // POPLAR_TARGET_HYBRIDREPORT_H

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

#ifndef POPLAR_REPORT_HYBRIDREPORT_H
#define POPLAR_REPORT_HYBRIDREPORT_H

#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Pipeline/HybridResult.h"
#include "Poplar/Planner/Pipeline/HybridReview.h"
#include "Poplar/Report/PlanReport.h"
#include "llvm/Support/JSON.h"

namespace poplar {

/// The best plan without pipelines.
struct ZeroAlone {
  /// By its closed form; none if `error` says why there is no such plan.
  std::optional<double> seconds;
  double simulatedSeconds = 0;
  int stage = 0;
  std::string error;

  /// By simulation, in which a plan without pipelines hides communication.
  bool isFasterThan(double seconds) const {
    return this->seconds && simulatedSeconds < seconds;
  }
};

/// A plan and all that was found out about it.
struct HybridReport : HybridResult {
  /// By type of the problem.
  std::vector<std::string> typeNames;
  /// Devices of the cluster.
  size_t numDevices = 0;
  HybridReview review;
  /// Parallel to HybridReview::alone.
  std::vector<std::string> aloneNames;
  /// Relative, of what was estimated; 0 if all was measured.
  double uncertainty = 0;
  ZeroAlone pure;
  Buildability buildability;
};

/// "embed .. block.6": units [first, end).
std::string formatUnits(const HybridModel &model, int first, int end);
/// What collectives round between nodes: a line, or nothing.
std::string formatWires(const LossyWires &wires);
/// The members of an object. Plans of the policies hybrid and geo say alike
/// what came of the search.
template <typename Report>
void writeOutcome(llvm::json::OStream &os, llvm::StringRef policy,
                  int64_t globalBatch, const Report &report) {
  os.attribute("policy", policy);
  os.attribute("global_batch", globalBatch);
  os.attribute(report.isPlayed ? "simulated_seconds"
                               : "simulated_from_costs_seconds",
               report.simulation.seconds);
  os.attribute("simulated_from", report.isPlayed ? "programs" : "costs");
  os.attribute("predicted_seconds", report.getPredicted());
  os.attribute("uncertainty", report.uncertainty);
  os.attribute("lower_bound_seconds", report.getLowerBound());
  os.attribute("proven", report.isProven());
  write(os, report.buildability);
  if (report.wires.gradients)
    os.attribute("gradient_wire", toString(*report.wires.gradients));
  if (report.wires.parameters)
    os.attribute("parameter_wire", toString(*report.wires.parameters));
}
void writeZeroAlone(llvm::json::OStream &os, const ZeroAlone &pure);

std::string formatHybridText(const HybridReport &report);
std::string formatHybridJSON(const HybridReport &report);

} // namespace poplar

#endif // POPLAR_REPORT_HYBRIDREPORT_H

//===- PlanReport.h - Reviews as JSON and as a page -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_REPORT_PLANREPORT_H
#define POPLAR_REPORT_PLANREPORT_H

#include "Poplar/Planner/Cluster/Buildable.h"
#include "Poplar/Planner/Simulation/Simulator.h"
#include "Poplar/Planner/Simulation/Timeline.h"
#include "Poplar/Planner/Zero/PlanReview.h"
#include "llvm/Support/JSON.h"

namespace poplar {

/// Everything in a review as one JSON object, ended by a newline. Units are
/// seconds and bytes. docs/heterogeneous.md describes it.
std::string formatPlanJSON(const ClusterView &cluster, const PlanReview &review,
                           const Buildability &buildability);

/// The members of an object, which all plans have.
void write(llvm::json::OStream &os, const Buildability &buildability);

/// What RUN/metrics.csv holds of a step.
struct MeasuredStep {
  int64_t step;
  double loss;
  /// Where the step was evaluated.
  std::optional<double> evalLoss;
  double tokensPerSecond;
};

/// Reads metrics.csv as a run writes it. Fails, with `error` set to one line
/// that begins with the number of the line, if it is none or has no step.
std::optional<std::vector<MeasuredStep>> readMetrics(const std::string &text,
                                                     std::string &error);

/// A plan's iteration as it was simulated, of so many steps at most.
struct SimulatedIteration {
  Timeline timeline;
  int64_t steps;
};

/// A plan of pipeline stages, simulated.
struct StagedPlan {
  std::string schedule, policy;
  int64_t globalBatch = 0;
  /// Ranks of a group whose pipelines are alike.
  struct Part {
    int64_t group, zeroStage;
    /// "0 to 8", "ranks 0-3, 8"
    std::string units, ranks, deviceType;
    RankShare share;
    Simulation::ClassSeconds seconds;
  };
  std::vector<Part> parts;
};

/// What a page is about: a plan, a run, or both. A plan has a review or stages.
struct ReportInput {
  /// A path, as the user gave it.
  std::string name;
  ClusterView cluster;
  std::optional<PlanReview> review;
  std::optional<StagedPlan> stages;
  std::optional<SimulatedIteration> simulated;
  std::vector<MeasuredStep> run;
  /// Of a sample; 0 if the model does not say.
  int64_t tokensPerSample = 0;
  /// What is missing from the page, and why. May be empty.
  std::string note;
};

/// One page of HTML that needs nothing else: no script, no other file, and no
/// network. Readable on a narrow screen, and in the dark where that is asked
/// for.
std::string formatReportPage(const ReportInput &input);

} // namespace poplar

#endif // POPLAR_REPORT_PLANREPORT_H

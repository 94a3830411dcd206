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
#include <map>

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
  /// What the run has done so far; runs of older versions do not say.
  std::optional<double> seconds, tokens, epochs;
};

/// Reads metrics.csv as a run writes it. Fails, with `error` set to one line
/// that begins with the number of the line, if it is none. A run of no steps
/// has none.
std::optional<std::vector<MeasuredStep>> readMetrics(const std::string &text,
                                                     std::string &error);

/// A plan's iteration as it was simulated, of so many steps at most.
struct SimulatedIteration {
  Timeline timeline;
  /// Parallel to the timeline's classes: the device type and its ranks.
  struct RankClass {
    std::string deviceType, name;
  };
  std::vector<RankClass> classes;
  int64_t steps;
};

/// A step of a run as its ranks recorded it. Times are since its begin.
struct MeasuredTimeline {
  Timeline timeline;
  int64_t step = 0;
};

/// Reads what `poplar train --trace` wrote, and takes the step whose time is
/// the median. Fails, with `error` set, if there is no step in it.
std::optional<MeasuredTimeline> readTrace(const std::string &path,
                                          std::string &error);

/// A plan of pipeline stages, simulated.
struct StagedPlan {
  /// None of a single stage, whose ranks share units.
  std::optional<PlanSchedule> schedule;
  std::string policy;
  int64_t globalBatch = 0;
  /// Ranks of a group whose pipelines are alike.
  struct Part {
    int64_t group, zeroStage, numUnits;
    /// "0 to 8", "ranks 0-3, 8"
    std::string units, ranks, deviceType;
    int64_t numRanks = 0;
    RankShare share;
    /// None of a plan that cannot be built.
    std::optional<Simulation::ClassSeconds> seconds;
  };
  std::vector<Part> parts;
};

/// What the page says of the model. Numbers that are not known are 0.
struct ReportModel {
  std::string architecture;
  int64_t parameters = 0, trained = 0, layers = 0, hidden = 0, vocabulary = 0,
          context = 0;
};

/// Another way to use the devices, simulated; or why there is none.
struct ReportBaseline {
  /// "uniform", "whale", "zero" or "alone", and of the last the device type.
  std::string policy, deviceType;
  std::optional<double> seconds;
  std::string error;
};

/// What a page is about: a plan, a run, or both. A plan has a review or stages.
struct ReportInput {
  /// A path, as the user gave it.
  std::string name;
  std::optional<ReportModel> model;
  ClusterView cluster;
  /// Devices in the job, by node and type.
  std::map<std::pair<int, int>, int64_t> used;
  std::optional<PlanReview> review;
  std::optional<StagedPlan> stages;
  std::optional<SimulatedIteration> simulated;
  std::vector<ReportBaseline> baselines;
  /// What plans of parts of the cluster cost, where it was planned by cost.
  std::vector<Plan::Priced> frontier;
  /// Whether it is of a run, which may have no steps.
  bool isRun = false;
  std::vector<MeasuredStep> run;
  std::optional<MeasuredTimeline> trace;
  /// Some of the times that a simulation rests on are estimates.
  bool isEstimate = false;
  /// Whether what was reported on has a plan, shown or not.
  bool hasPlan = false;
  /// What is missing from the page, and why. May be empty.
  std::string note;
};

/// One page of HTML that needs nothing else: no script, no other file, and no
/// network. Readable on a narrow screen, and in the dark where that is asked
/// for.
std::string formatReportPage(const ReportInput &input);

} // namespace poplar

#endif // POPLAR_REPORT_PLANREPORT_H

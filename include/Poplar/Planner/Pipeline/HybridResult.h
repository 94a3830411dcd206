//===- HybridResult.h - A hybrid plan and its search ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H
#define POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H

#include "Poplar/Planner/Deadline.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Pipeline/HybridColumns.h"
#include "Poplar/Planner/Pipeline/HybridModel.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include <limits>

namespace poplar {

/// What hybrid and geo planning are asked for.
struct HybridRequest {
  /// Samples of an iteration; bytes that buckets have at least.
  int64_t globalBatch = 0, bucketBytes = 0;
  /// "auto", or that of all groups.
  std::string stage = "auto";
  /// Limits on devices that share a unit and on chunks of a stage; 0 for none.
  int mostTensorDegree = 0, mostChunks = 0;
  /// Plan for devices without a runtime, too. Plans are simulated by the costs
  /// of units: there are no programs.
  bool hypothetical = false;
  /// Share units as no program can yet, too; in hypothetical plans.
  bool sharesFreely = false;
  /// Round gradients between nodes, too, if that is faster.
  bool allowsLossy = false;
  /// Plan columns (HybridColumns.h), too. No zero.plan can hold them.
  bool plansColumns = false;
  bool recordsTimeline = false;
  /// Seconds of a plan that exists already. Plans that cannot take less, given
  /// how far costs lie from simulation, are not looked for.
  double knownSeconds = std::numeric_limits<double>::infinity();
  /// What is not begun until then, is left out, unless nothing is known.
  Deadline deadline;

  bool hasKnownPlan() const {
    return knownSeconds < std::numeric_limits<double>::infinity();
  }
  /// Plans that cost as much or more are not looked for.
  double getCostLimit() const { return knownSeconds * simulationMargin; }
};

/// The plans of a kind that are played, those that take least by the costs of
/// units first. What costs leave out is much the same for all plans of a job:
/// no program was seen to be 7 % faster, relative to its costs, than all others
/// were, or than its costs.
class PlayedPlans {
public:
  explicit PlayedPlans(const HybridRequest &request) : request(request) {}

  /// Whether the programs of a plan that takes `costs` seconds by costs can be
  /// faster than those that were played, and than what is known. The first is
  /// always played.
  bool mayBeFastest(double costs) const {
    return isFirst() || (!request.deadline.isOver() &&
                         costs < std::min(fastest, request.knownSeconds) *
                                     simulationMargin &&
                         costs * leastRatio * (1 - spread) < fastest);
  }
  /// Whether the plan is the fastest so far.
  bool add(double costs, double programs) {
    leastRatio = std::min(leastRatio, programs / costs);
    bool isFastest = programs < fastest;
    fastest = std::min(fastest, programs);
    return isFastest;
  }
  bool isFirst() const {
    return fastest == std::numeric_limits<double>::infinity();
  }

private:
  static constexpr double spread = 0.07;

  const HybridRequest &request;
  double fastest = std::numeric_limits<double>::infinity(), leastRatio = 1;
};

/// A plan that was played before the fastest was taken.
struct PlayedFinalist {
  PipelineSchedule schedule;
  int chunks = 1;
  size_t stages = 1;
  /// Simulated, from the costs of units and from the programs.
  double fromCosts = 0, fromPrograms = 0;
};

struct HybridResult {
  HybridModel model;
  /// There is no plan, as none takes less than HybridRequest::knownSeconds.
  bool isSlower = false;
  /// What collectives may round.
  LossyWires wires;
  /// The problem of all devices.
  HybridProblem whole;
  /// By type of the columns' problems.
  std::vector<HybridCluster::Devices> devices;
  /// What is planned together: one column, or one for each type.
  struct Column : HybridColumns::Column {
    /// By group and lane, ranks of the cluster: those of a pipeline together.
    std::vector<std::vector<std::vector<int>>> ranks;
  };
  std::vector<Column> columns;
  /// By the closed form: of the plan; what no plan of its kind takes less than,
  /// of all choices of devices if they were all tried, else of those at hand;
  /// and what no plan of any kind takes less than, of the latter.
  double predicted = 0, lowerBound = 0, lowerBoundOfKinds = 0;
  /// What no plan takes less than, of any devices and in any number of chunks;
  /// where columns are planned, they are not counted. Known also where there is
  /// no plan, as none takes less than HybridRequest::knownSeconds.
  double lowerBoundOfAll = 0;
  bool triedAllDevices = false;
  /// Lanes of all columns, one after the other.
  PipelineSimulation simulation;
  /// It is of the plan's programs (playStages()), not of the costs of units.
  bool isPlayed = false;
  /// If it is, by the costs the fastest first.
  std::vector<PlayedFinalist> finalists;

  double getPredicted() const { return predicted; }
  double getLowerBound() const { return lowerBound; }
  double getLowerBoundOfAll() const { return lowerBoundOfAll; }
  bool isProven() const { return lowerBound >= predicted * (1 - 1e-9); }
};

} // namespace poplar

#endif // POPLAR_PLANNER_PIPELINE_HYBRIDRESULT_H

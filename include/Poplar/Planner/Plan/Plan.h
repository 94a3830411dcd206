//===- Plan.h - A plan, whoever made it -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a zero.plan holds (Dialect/Zero/ZeroOps.td describes each part), in
// plain C++. Every policy ends in a Plan; zero::addPlan() writes it to a
// module, and zero::readPlan() reads it back.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_PLAN_PLAN_H
#define POPLAR_PLANNER_PLAN_PLAN_H

#include "Poplar/Planner/Batch/BatchProblem.h"
#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct Plan {
  /// The ranks of a pipeline stage, or those that share units.
  struct Group {
    /// For each chunk, the first of its units and the one behind its last.
    std::vector<int64_t> units;
    /// The stage of ZeRO.
    int64_t zeroStage = 0;
    /// Ranks of a pipeline that share each unit: one number for all pipelines,
    /// or one for each.
    std::vector<int64_t> tensorDegrees = {1};
    /// How much of a unit each of them computes, relative to each other; empty
    /// where all compute as much.
    std::vector<int64_t> parts;

    int64_t getTensorDegree(size_t pipeline) const {
      return tensorDegrees.size() == 1 ? tensorDegrees[0]
                                       : tensorDegrees[pipeline];
    }
  };
  /// A device, by the names of its type and its node.
  struct Rank {
    std::string type, node;
    RankShare share;
    /// Threads of a host.
    int64_t threads = 1;
    /// Its part of the sharded state, relative to the others of its group.
    double state = 1;
    int64_t group = 0;
    /// None for what its type recomputes.
    std::optional<RecomputePolicy> recompute;
    /// Its order of passes and their chunks, in plans of schedule "custom".
    std::vector<int64_t> turns, chunks;
  };
  /// A plan that was simulated to find this one: seconds of an iteration by the
  /// closed form, and simulated.
  struct Candidate {
    std::string description;
    double predicted, simulated;
  };

  std::string policy;
  /// The stage of ZeRO: the highest of the groups'.
  int64_t stage = 0;
  int64_t globalBatch = 0;
  /// In which pipelines take their turns; none where there are no pipelines.
  std::optional<PlanSchedule> schedule;
  LossyWires wires;
  /// None where all ranks are one group, which shares no units.
  std::vector<Group> groups;
  /// In the order of groups, pipelines, and ranks that share units.
  std::vector<Rank> ranks;
  /// Seconds of an iteration by the closed form, and the relative uncertainty
  /// of profiles that are estimates.
  std::optional<double> predicted, uncertainty;
  /// Simulated seconds of the plan itself, where it was simulated, and of the
  /// plans that it was chosen from, itself among them.
  std::optional<double> simulated;
  std::vector<Candidate> candidates;
};

/// A pipeline stage by the ranks of a cluster, from which writeStages() makes a
/// group.
struct StageRanks {
  /// As Plan::Group has them.
  std::vector<int64_t> units;
  int64_t zeroStage = 0;
  /// By pipeline: the ranks of the cluster that share the units in it, and what
  /// they recompute. `recompute` is empty where all do what their type does.
  std::vector<std::vector<int>> ranks;
  std::vector<RecomputePolicy> recompute;
  std::vector<int64_t> parts;
};

/// The plan of pipelines through `stages`, each of which has a share of the
/// samples. A single stage in which no ranks share units becomes a plan without
/// groups. `schedule` is that of several stages.
Plan writeStages(const ClusterView &cluster, std::string policy,
                 std::optional<PlanSchedule> schedule,
                 const std::vector<StageRanks> &stages,
                 const std::vector<RankShare> &shares);

/// Shares of `samples` for pipelines, as evenly as can be, in micro-batches of
/// `microBatch`; the last has what is left. With `sameSteps` all pipelines have
/// equally many.
std::vector<RankShare> sharePipelines(int64_t samples, int64_t pipelines,
                                      int64_t microBatch, bool sameSteps);

/// Why poplar build does not take a plan for `cluster`; empty if it does.
std::string explainUnbuildable(const ClusterView &cluster, const Plan &plan);

} // namespace poplar

#endif // POPLAR_PLANNER_PLAN_PLAN_H

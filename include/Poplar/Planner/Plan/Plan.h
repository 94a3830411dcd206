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
#include "Poplar/Planner/Pipeline/Timetable.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct Plan {
  /// The ranks of a pipeline stage. A plan of ZeRO alone has one group, which
  /// computes the whole model.
  struct Group {
    /// For each chunk, the first of its units and the one behind its last;
    /// empty for the whole model, which then need not have units.
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
    int64_t getLargestTensorDegree() const;
    /// The parts of the ranks that share units; one where none do.
    std::vector<int64_t> getPartsOfRanks() const;
    bool isWhole() const { return units.empty(); }
    int64_t getNumChunks() const {
      return isWhole() ? 1 : static_cast<int64_t>(units.size() / 2);
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
    std::optional<Recomputation> recompute;
    /// Its order of passes and their chunks, in plans of schedule "custom".
    std::vector<int64_t> turns, chunks;
  };
  /// A plan that was simulated to find this one: seconds of an iteration by the
  /// closed form, and simulated.
  struct Candidate {
    std::string description;
    double predicted, simulated;
  };
  /// The best plan of a part of the cluster: the devices that take part ("4
  /// a100, 2 v100"), its policy, seconds and cost of an iteration.
  struct Priced {
    std::string devices, policy;
    double seconds, cost;
  };

  std::string policy;
  int64_t globalBatch = 0;
  /// In which pipelines take their turns; none where there are no pipelines.
  std::optional<PlanSchedule> schedule;
  LossyWires wires;
  /// How many shard groups hold all of the state, see zero.plan.
  int64_t replicas = 1;
  /// At least one.
  std::vector<Group> groups = {Group()};
  /// In the order of groups, pipelines, and ranks that share units.
  std::vector<Rank> ranks;
  /// Seconds of an iteration by the closed form; those that no plan that the
  /// policy chooses from takes less than; and the relative uncertainty of
  /// profiles that are estimates.
  std::optional<double> predicted, lowerBound, uncertainty;
  /// Simulated seconds of the plan itself, where it was simulated, and of the
  /// plans that it was chosen from, itself among them.
  std::optional<double> simulated;
  std::vector<Candidate> candidates;
  /// Where it was planned by cost: plans than which none that was made is both
  /// faster and cheaper, the fastest first. This plan is one of them, unless an
  /// equal one is.
  std::vector<Priced> frontier;

  /// Whether the plan is one of ZeRO alone: data parallel, without pipelines or
  /// shared units.
  bool isWhole() const { return groups.front().isWhole(); }
  /// Ranks of a shard group; all where there are no replicas.
  int64_t getShardGroupSize() const {
    return static_cast<int64_t>(ranks.size()) / replicas;
  }
  /// The stage of ZeRO: the highest of the groups'.
  int64_t getStage() const;
  /// Sets what is rounded between nodes, as far as it is sent: in stage 0,
  /// parameters are not.
  void setWires(const LossyWires &chosen);
  /// Ranges of units of every group.
  int64_t getNumChunks() const { return groups.front().getNumChunks(); }
  /// The ranks of a group, by pipeline; those of a pipeline share its units.
  std::vector<std::vector<int64_t>> getPipelinesOf(size_t group) const;
  /// Where a rank is: its pipeline, and its place among the ranks that share
  /// units with it; behind them where it computes whole units (Lanes.h).
  struct Place {
    int64_t pipeline = 0, position = 0;
  };
  /// By rank.
  std::vector<Place> getPlaces() const;
  /// The virtual stage that owns a unit, v * S + j for chunk v of group j of S;
  /// that of unit 0 for -1, one more than there are for a unit that no group
  /// owns.
  int64_t findVirtualStage(int64_t unit) const;
  /// The turns of the ranks of a pipeline, by group. The plan has several.
  Timetable getTimetable(size_t pipeline) const;
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
/// samples. A single stage in which no ranks share units becomes a group that
/// computes the whole model. `schedule` is that of several stages.
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

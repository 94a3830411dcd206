//===- PlanSearch.h - From a cluster to a plan ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The joint search. A plan is a stage of ZeRO, how the state is sharded, what
// each device type recomputes, which devices take part, and who takes how many
// samples in how many steps. The last is a policy's to say (BatchPolicy.h);
// the search goes over the rest, by the cost in BatchProblem.h.
//
// It tries everything where that is little; else, for every stage and sharding,
// what the types recompute is improved one type at a time, then the devices
// (DeviceSelection.h). Shard groups that hold replicas have equal shares; all
// numbers of them are tried (ReplicaCost::list()), with nodes in the order of
// the cluster. `untried` says which of the two it was. Shares of the state by
// memory are the best but for 0.05 % of the time; devices of a type on nodes
// that are interchangeable hold as much, and every device of a type has memory
// for the same micro-batch.
//
// Types that recompute may do so in their first layers alone. Each plan that
// was found is tried with the fewest layers that leave memory for its
// micro-batches; of the best, one type at a time is tried with the fewest
// layers that each larger micro-batch needs.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_ZERO_PLANSEARCH_H
#define POPLAR_PLANNER_ZERO_PLANSEARCH_H

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Poplar/Planner/Cluster/DeviceSelection.h"
#include "Poplar/Planner/Cluster/RecomputedLayers.h"
#include "Poplar/Planner/Zero/ZeroProblem.h"

namespace poplar {

/// How what a stage shards is divided: into equal parts, by the memory that
/// ranks have left (shareStateByMemory()), or into equal parts in each of
/// several shard groups, which hold replicas.
enum class Sharding { Equal, Memory, Replicated };

/// "equal", "memory", "replicated".
const char *toString(Sharding sharding);

/// Those that a word allows: the one of this name, or all for "auto"; none for
/// any other word.
std::vector<Sharding> readShardings(const std::string &word);

/// What to choose from.
struct PlanChoices {
  int64_t globalBatch = 0;
  /// Increasing.
  std::vector<int> stages = {0, 1, 2, 3};
  std::vector<Sharding> shardings = readShardings("auto");
  /// Let devices be left out where that is faster, or else nothing fits.
  bool leaveOut = true;
  /// Let types recompute whatever they have a profile for; else what they are
  /// set to.
  bool chooseRecompute = true;
  /// By device type: the policies that may hold for the first layers alone.
  /// Types recompute in some layers only if they have a profile of the policy
  /// and one that keeps everything. May be empty.
  std::vector<std::vector<RecomputedLayers>> layers;
};

/// A complete choice.
struct PlanCandidate {
  int stage = 0;
  Sharding sharding = Sharding::Equal;
  /// By device type, as DeviceType::recompute; and the profiles of types that
  /// recompute in some layers only, which the cluster does not have.
  std::vector<Recomputation> recompute;
  std::vector<DeviceProfile> derived;
  /// The ranks of the cluster that take part, in order, and each one's share
  /// of what the stage shards, relative to the others'.
  std::vector<int> ranks;
  std::vector<double> state;
  /// The shard groups that hold it.
  int64_t replicas = 1;
  /// The problem of these ranks, but with all devices of the cluster counted;
  /// `allocation` drops the others.
  BatchProblem problem;
  Allocation allocation;
  /// What collectives may carry.
  LossyWires wires;
};

/// The best for a stage and a sharding, or why there is none.
struct PlanOutcome {
  int stage;
  Sharding sharding;
  std::optional<PlanCandidate> best;
  std::string error;
};

/// What a search did not try all of.
struct Untried {
  bool devices = false, recompute = false, shares = false;

  bool any() const { return devices || recompute || shares; }
  /// "devices and shares of the state"; empty if all was tried.
  std::string describe() const;
};

struct PlanSearchResult {
  /// By stage, then by sharding. Replicas are left out where there are none,
  /// unless nothing else was asked for.
  std::vector<PlanOutcome> outcomes;
  Untried untried;
  /// No plan of the choices takes less by the closed form, if the policy is an
  /// exact one. If all was tried, this is the best plan's time.
  double lowerBound = 0;

  /// The fastest plan; of equals, the first: the lowest stage, shared equally.
  /// Null if there is no plan.
  const PlanCandidate *best() const;
};

/// Deterministic. `cluster` has ranks, `model` has elements.
PlanSearchResult searchPlans(const ClusterView &cluster,
                             const ModelFacts &model, const BatchPolicy &policy,
                             const PlanChoices &choices);

/// Poses the problem of a job of all ranks of `cluster`, and sets `state` to
/// their shares. Of replicas, there are as many as the policy `exact` is
/// fastest with. Fails, with `error` set, as makeBatchProblem() and
/// shareStateByMemory() do.
std::optional<BatchProblem> poseProblem(const ClusterView &cluster,
                                        const ModelFacts &model, int stage,
                                        Sharding sharding, int64_t globalBatch,
                                        std::vector<double> &state,
                                        std::string &error);

/// The recomputation policies that a type may have and has a usable profile for
/// in a stage: its own first, then in the order of the policies. Only its own
/// where that is fixed.
std::vector<Recomputation> getProfiledRecompute(const ClusterView &cluster,
                                                const ModelFacts &model,
                                                int type, int stage);

} // namespace poplar

#endif // POPLAR_PLANNER_ZERO_PLANSEARCH_H

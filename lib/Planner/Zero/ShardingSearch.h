//===- ShardingSearch.h - Plans of a ZeRO stage -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The search for a plan of one ZeRO stage, whose state is shared in one way:
// which devices take part, and what each type recomputes.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_SHARDINGSEARCH_H
#define POPLAR_LIB_PLANNER_SHARDINGSEARCH_H

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Zero/ShareSearch.h"
#include <limits>
#include <map>

namespace poplar {

/// Differences by rounding are none.
inline bool isFaster(const Allocation &a, const Allocation &b) {
  return a.seconds < b.seconds * (1 - 1e-12);
}

/// The ranks of a choice of devices: of each slot the first.
std::optional<ClusterView> takeChoice(const ClusterView &cluster,
                                      const DeviceSpace &space,
                                      const std::vector<int64_t> &choice,
                                      std::vector<int> *kept = nullptr);

/// The devices of a job. Most choices of devices are ruled out by the number of
/// each type: their ranks are listed where they are asked for.
class JobDevices {
public:
  JobDevices(const ClusterView &cluster, const DeviceSpace &space,
             const std::vector<int64_t> &choice);

  /// Its types and profiles are those of the job.
  const ClusterView &cluster;
  /// By type, and of all types.
  std::vector<int> counts;
  int64_t numRanks = 0;

  /// Null if some of the ranks do not reach each other.
  const ClusterView *getView();
  /// DeviceSpace::classifyRanks().
  std::vector<size_t> classify();

private:
  const DeviceSpace &space;
  const std::vector<int64_t> &choice;
  std::optional<ClusterView> view;
};

/// Poses the job of `devices`, whose state is shared equally.
std::optional<PosedJob> poseEqually(const JobDevices &devices,
                                    const TrafficRates &rates,
                                    const ModelFacts &model, int stage,
                                    int64_t globalBatch, std::string &error);
/// With as many replicas as the policy is fastest with. An error is of the
/// fewest.
std::optional<PosedJob>
poseReplicated(JobDevices &devices, RankTraffic &traffic,
               const ModelFacts &model, const BatchPolicy &policy, int stage,
               int64_t globalBatch, double limit, std::string &error);
/// With shares by memory.
std::optional<PosedJob> poseByMemory(JobDevices &devices, RankTraffic &traffic,
                                     const ModelFacts &model,
                                     const BatchPolicy &policy, int stage,
                                     int64_t globalBatch, double limit,
                                     std::string &error);

/// Devices that were found to be good for some stage, sharding and
/// recomputation are worth a try for others.
using Hints = std::vector<std::vector<int64_t>>;
/// By devices. The same ones are posed for many stages and recomputations.
using KnownTraffic = std::map<std::vector<int64_t>, RankTraffic>;

/// The search for one stage and sharding.
class ShardingSearch {
public:
  ShardingSearch(const ClusterView &cluster, const ModelFacts &model,
                 const BatchPolicy &policy, const PlanChoices &choices,
                 int stage, Sharding sharding, Hints &hints,
                 KnownTraffic &traffic);

  void run();
  /// Where not everything was tried, tries what other searches found.
  void refine();
  /// Lets types recompute in some layers, one type at a time, while that helps
  /// and the plan is not far from taking as little as `seconds`.
  void improveAllLayers(double seconds);
  /// Finds what no plan takes less than, whatever layers recompute.
  void boundLayers();
  /// Unless something was not tried: what no plan takes less than.
  double getLowerBound() const {
    double seconds = best ? best->allocation.seconds
                          : std::numeric_limits<double>::infinity();
    return std::min(seconds, layersBound.value_or(seconds));
  }
  std::optional<double> getSeconds() const {
    return best ? std::optional(best->allocation.seconds) : std::nullopt;
  }
  /// Shares of the state were searched for.
  bool sharesByMemory() const {
    return sharding == Sharding::Memory && stage > 0;
  }
  PlanOutcome finish(Untried &untried);

private:
  using Combination = std::vector<size_t>;

  void chooseDevices();
  std::vector<Recomputation> getUsableRecompute(int type) const;
  void eraseDominated(int type, std::vector<Recomputation> &policies) const;
  /// Types of equal specifications and profiles recompute the same.
  void tieTypes();
  size_t countCombinations() const;
  void tryAllCombinations();
  void improveCombination();
  bool improveOneByOne(int64_t budget);
  /// With all devices, or those that are best for the combination. True if it
  /// is better than what there was.
  bool consider(const Combination &combination, int64_t budget);
  void apply(const Combination &combination);
  void apply(const std::vector<Recomputation> &choice);
  const RecomputedLayers *findLayers(int type, RecomputePolicy policy) const;
  std::vector<Recomputation> getRecompute() const;
  std::optional<DeviceProfile> deriveProfile(int type,
                                             Recomputation recompute) const;
  /// The largest micro-batch that fits on a type in the job of `selection`, if
  /// it recomputes like this; none where that is not known.
  std::optional<int64_t> getLargestBatch(const DeviceSelection &selection,
                                         int type,
                                         Recomputation recompute) const;
  bool tryRecompute(const std::vector<Recomputation> &choice,
                    DeviceSelection &selection);
  void takeFewestLayers(DeviceSelection &selection);
  bool improveLayers(int type);
  bool applyLeast();
  std::optional<PosedJob> pose(const std::vector<int64_t> &choice, double limit,
                               std::string &error);
  PlanCandidate makeCandidate();

  ClusterView cluster; // as the combination at hand has it
  const ModelFacts &model;
  const BatchPolicy &policy;
  const PlanChoices &choices;
  int stage;
  Sharding sharding;
  /// What each type may recompute, and the type that it has to follow in that:
  /// itself or one before it.
  std::vector<std::vector<Recomputation>> recompute;
  std::vector<size_t> leaders;
  Hints &hints;
  KnownTraffic &traffic;
  /// Devices that there are, and that the policy wants to have.
  std::vector<int64_t> counts, usable;
  DeviceSpace space = DeviceSpace::ofTypes({});
  int64_t budget = 1;
  Untried untried;

  std::optional<DeviceSelection> best;
  Combination bestCombination;
  /// What types recompute in `best`, some of it perhaps in a part of the
  /// layers.
  std::vector<Recomputation> bestRecompute;
  /// Profiles of the cluster, in front of those that are derived for what its
  /// types recompute.
  size_t numProfiles = 0;
  /// Some types may recompute in some layers; and what no plan takes less than,
  /// whatever they are.
  bool triesLayers = false;
  std::optional<double> layersBound;
  std::string firstError;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_SHARDINGSEARCH_H

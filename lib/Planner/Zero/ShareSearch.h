//===- ShareSearch.h - Who holds how much of the state ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the shares of the state of a job's ranks so that a step takes least
// time. Memory that holds state holds no activations; shares that are less
// equal make collectives take longer, or the update; a rank behind a slow link
// had better hold little.
//
// Let c be the largest micro-batch that each type is to have memory for. It
// leaves room for so much state, and then the loads of ports and ranks (what
// collectives and the update take) are linear functions of the shares: the best
// shares are a linear program, and the samples are the policy's to share. Both
// are monotone: a larger c never makes the samples take longer, and never makes
// a load smaller. So no c between `low` and `high` takes less than the samples
// with memory for `high` and each load at its least with memory for `low`, and
// the best c is found by branch and bound.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_SHARESEARCH_H
#define POPLAR_LIB_PLANNER_SHARESEARCH_H

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "Poplar/Planner/Zero/ZeroProblem.h"
#include "Zero/LinearProgram.h"
#include <array>
#include <map>
#include <set>

namespace poplar {

/// What ranks exchange, which is the same whatever the ZeRO stage is and types
/// recompute.
struct RankTraffic {
  /// For ranks that hold equal shares.
  TrafficRates rates;
  /// As functions of the shares: what ports do in gathers and reductions, and
  /// what ranks do.
  struct Loads {
    std::vector<CollectiveCost::Load> gathers, reductions, ranks;
  };
  /// None until a ShareSearch needs them.
  std::optional<Loads> loads;
  /// ReplicaCost::list(); none until it is asked for.
  std::optional<std::vector<int64_t>> replicas;
  /// By the number of replicas that hold equal shares; those asked for so far.
  std::map<int64_t, TrafficRates> ofReplicas;

  explicit RankTraffic(const ClusterView &view)
      : rates(getTrafficRates(view,
                              std::vector<double>(view.ranks.size(), 1.0))) {}
};

/// makeBatchProblem() where the rates of these shares are known.
std::optional<BatchProblem>
makeBatchProblem(const ClusterView &cluster, const ModelFacts &model, int stage,
                 int64_t globalBatch, const std::vector<double> &state,
                 const TrafficRates &rates, std::string &error);
/// The same for `counts` devices of each type, of which one holds at most the
/// share `largest`, in parts of all that a replica holds.
std::optional<BatchProblem>
makeBatchProblem(const ClusterView &cluster, const std::vector<int> &counts,
                 const std::vector<double> &largest, const ModelFacts &model,
                 int stage, int64_t globalBatch, const TrafficRates &rates,
                 std::string &error);

class ShareSearch {
public:
  /// For the job of all ranks of `view`, as its types are set. `classes` is by
  /// rank: nodes whose ranks are of the same classes are interchangeable.
  /// `traffic` is that of these ranks, with loads of these classes if any.
  /// Fails, with `error` set, where a profile is missing, or does not tell
  /// memory.
  static std::optional<ShareSearch>
  make(const ClusterView &view, const ModelFacts &model,
       const BatchPolicy &policy, int stage, int64_t globalBatch,
       const std::vector<size_t> &classes, RankTraffic &traffic,
       std::string &error);

  struct Result {
    /// By rank; empty if no shares have a plan that takes at most the limit.
    std::vector<double> state;
    /// No plan takes less than this by more than `tolerance`.
    double least;
    /// False if there may be better shares: there were too many micro-batches,
    /// or unlike devices, to choose from.
    bool isShown = true;
    /// Problems that were solved.
    int64_t work = 0;
  };
  /// Finds the best shares if a plan takes at most `limit` seconds.
  Result run(double limit);

  /// Plans that are closer in time, relatively, are as good.
  static constexpr double tolerance = 5e-4;

private:
  /// The largest micro-batch by type that there is to be memory for.
  using Caps = std::vector<int64_t>;
  /// What depends on shares, relative to equal ones: seconds of gathers, of
  /// reductions, what they take away from computation, and the update.
  static constexpr size_t numLoads = 4;
  using Loads = std::array<double, numLoads>;
  /// All caps between two.
  struct Box {
    Caps low, high;
    /// Least loads with memory for `low`.
    Loads loads;
    /// What no plan in here takes less than, and the micro-batches of a plan
    /// that would take this if everything were at its least.
    double bound;
    Caps used;
  };

  ShareSearch(const ClusterView &view, const ModelFacts &model,
              const BatchPolicy &policy, BatchProblem problem)
      : view(view), model(model), policy(policy), problem(std::move(problem)) {}

  bool readMemory(int stage, std::string &error);
  void addLoads(const std::vector<size_t> &classes, RankTraffic &traffic);
  RankTraffic::Loads listLoads() const;
  void addLoad(size_t load, const CollectiveCost::Load &of, double scale);

  /// The room for the state, in parts of an equal share, that a rank of each
  /// variable has.
  std::vector<double> getRooms(const Caps &caps) const;
  bool hasRoom(const Caps &caps) const;
  LinearProgram limit(const Caps &caps) const;
  /// The variables, then the loads, then the time, of the least sum of these by
  /// weight; none if the state does not fit.
  std::optional<std::vector<double>> minimize(const LinearProgram &limited,
                                              const Loads &weights,
                                              double weightOfTime = 0) const;
  std::optional<Loads> getLeastLoads(const Caps &caps) const;
  /// Sets the problem to these.
  void pose(const Caps &caps, const Loads &loads);
  /// What `allocation` takes, relative to `unit` seconds, and how it grows.
  double getTime(const Allocation &allocation, const Caps &caps,
                 const Loads &loads, double unit);
  Loads getSlope(const Allocation &allocation, const Caps &caps,
                 const Loads &loads, double unit);

  /// Sets the bound of a box. False if there is nothing in it.
  bool setBound(Box &box);
  /// Tries shares with memory for `caps`.
  void tryCaps(const Caps &caps, const Loads &least);
  /// The samples for the loads, then the best shares for these samples, and
  /// again, while it helps. True if they are the best of all.
  bool improve(const Caps &caps, Loads loads);
  /// The best shares for `allocation`; true if they take no longer than it
  /// says.
  bool balance(const Allocation &allocation, const Caps &caps, Loads &loads);
  /// Between `low` and what the box would have, as much as there is room for.
  void tryPart(const Box &box);
  /// The type to branch on, if there is one.
  std::optional<size_t> chooseType(const Box &box) const;
  std::vector<double> getState() const;

  const ClusterView &view;
  const ModelFacts &model;
  const BatchPolicy &policy;
  BatchProblem problem;
  CollectiveCost::Ownership ownership;
  TrafficRates rates;
  double update = 0;
  int64_t numUnits = 0, work = 0;
  /// By type: bytes next to what a rank always holds, those of a unit of state
  /// and of a sample.
  std::vector<int64_t> freeBytes, unitBytes, sampleBytes;
  /// By variable: the type, and how many ranks.
  std::vector<int> typeOf;
  std::vector<int64_t> numRanks;
  /// Rows of loads and of the sum of all shares, without those of rooms. Its
  /// variables are those of shares, the loads, and the time.
  LinearProgram program{0};
  /// Loads that matter. Reductions may be as gathers are.
  std::array<bool, numLoads> hasLoad = {};
  bool isSymmetric = false;
  /// All ranks of a type are one variable, although they differ.
  bool isMerged = false;

  double bestSeconds = 0;
  /// By variable; empty if there is none.
  std::vector<double> bestShares;
  std::set<Caps> tried;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_SHARESEARCH_H

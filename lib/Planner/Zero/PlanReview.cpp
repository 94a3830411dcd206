//===- PlanReview.cpp - All there is to say of a plan ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanReview.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Cluster/HostRounding.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace poplar;

/// Alternatives leave out none of more devices: that takes as long as the search
/// of the plan did.
static constexpr size_t mostLeftOutOf = 1024;

namespace {

class Reviewer {
public:
  Reviewer(const ClusterView &cluster, const ModelFacts &model,
           const Plan &written)
      : cluster(cluster), model(model), written(written) {}

  bool run(PlanReview &review, std::string &error);

private:
  bool findRanks(std::string &error);
  bool pose(PlanReview &review, std::string &error);
  void allocate(PlanReview &review) const;
  void addRanks(PlanReview &review) const;
  void addRecompute(PlanReview &review) const;
  void addAlternatives(PlanReview &review, const BatchPolicy &policy) const;

  const ClusterView &cluster;
  const ModelFacts &model;
  const Plan &written;
  /// The cluster of the job's ranks alone, and which they are.
  ClusterView job;
  std::vector<int> ranks;
};

} // namespace

/// A rank of the plan is the first device of its type on its node that no rank
/// before it is.
bool Reviewer::findRanks(std::string &error) {
  std::map<std::pair<std::string, std::string>, std::vector<int>> devices;
  for (int rank = static_cast<int>(cluster.ranks.size()) - 1; rank >= 0; --rank)
    devices[{cluster.types[cluster.ranks[rank].type].name,
             cluster.nodes[cluster.ranks[rank].node].name}]
        .push_back(rank);
  job = cluster;
  job.ranks.clear();
  for (ClusterNode &node : job.nodes)
    node.numRanks = 0;
  for (const Plan::Rank &rank : written.ranks) {
    std::vector<int> &left = devices[{rank.type, rank.node}];
    if (left.empty()) {
      error = "rank " + std::to_string(ranks.size()) +
              " is on a device of type '" + rank.type + "' on node '" +
              rank.node + "', which has no more of them";
      return false;
    }
    ranks.push_back(left.back());
    left.pop_back();
    job.ranks.push_back(cluster.ranks[ranks.back()]);
    ClusterNode &node = job.nodes[job.ranks.back().node];
    if (node.numRanks++ == 0)
      node.firstRank = static_cast<int>(job.ranks.size()) - 1;
  }
  return true;
}

/// The shares as written, by type.
void Reviewer::allocate(PlanReview &review) const {
  Allocation &allocation = review.plan.allocation;
  allocation.policy = written.policy;
  allocation.types.resize(cluster.types.size());
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    RankShare share = written.ranks[i].share;
    // Where ranks have steps of their own, one without samples has none.
    if (written.getStage() < 2 && share.samples() == 0)
      share = {};
    auto &groups = allocation.types[job.ranks[i].type].groups;
    if (groups.empty() || !(groups.back().share == share))
      groups.push_back({0, share});
    ++groups.back().count;
  }
}

bool Reviewer::pose(PlanReview &review, std::string &error) {
  PlanCandidate &plan = review.plan;
  plan.stage = static_cast<int>(written.getStage());
  plan.ranks = ranks;
  plan.wires = written.wires;
  for (const DeviceType &type : cluster.types)
    plan.recompute.push_back(type.recompute);
  for (const Plan::Rank &rank : written.ranks)
    plan.state.push_back(rank.state);
  plan.replicas = written.replicas;
  for (double share : plan.state)
    if (share != plan.state.front() && plan.stage > 0)
      plan.sharding = Sharding::Memory;
  if (plan.replicas > 1)
    plan.sharding = Sharding::Replicated;
  auto problem = makeBatchProblem(job, model, plan.stage, written.globalBatch,
                                  plan.state, error, plan.replicas);
  if (!problem)
    return false;
  plan.problem = std::move(*problem);
  allocate(review);
  error = plan.allocation.verifyShares(plan.problem);
  if (!error.empty())
    return false;
  plan.allocation.seconds = plan.allocation.predict(plan.problem);
  return true;
}

void Reviewer::addRanks(PlanReview &review) const {
  review.collectiveBytes = getCollectiveBytes(
      job, model, written.getStage(),
      std::max<int64_t>(written.ranks[0].share.steps, 1), written.replicas);
  double total = 0;
  for (double share : review.plan.state)
    total += share;
  total /= double(written.replicas);
  std::vector<int64_t> seen(cluster.types.size());
  for (size_t i = 0; i < job.ranks.size(); ++i) {
    const ClusterRank &place = job.ranks[i];
    int64_t device = seen[place.type]++;
    PlanReview::Rank rank = {};
    rank.type = place.type;
    rank.node = place.node;
    rank.share = written.ranks[i].share;
    rank.state = review.plan.state[i] / total;
    for (const auto &group : review.explanation.groups)
      if (static_cast<int>(group.type) == place.type &&
          device >= group.firstDevice &&
          device < group.firstDevice + group.count) {
        rank.limit = group.limit;
        rank.busy = group.busy;
        rank.waiting = group.waiting;
      }
    const DeviceProfile *profile =
        job.findProfile(place.type, written.getStage(), model.fingerprint);
    if (profile->memory) {
      PlanReview::Rank::Memory memory;
      memory.fixed = getFixedBytes(*profile, job.types[place.type], model,
                                   written.getStage(), rank.state, job.wires);
      memory.perSample = profile->memory->perSample;
      memory.peak = memory.fixed + rank.share.largestStep() * memory.perSample;
      rank.memory = memory;
    }
    review.ranks.push_back(rank);
  }
}

/// What each type recomputes, and what the same ranks would take if it was
/// something else.
void Reviewer::addRecompute(PlanReview &review) const {
  std::vector<int> counts = job.countRanks();
  auto stage = static_cast<int>(written.getStage());
  for (size_t i = 0; i < counts.size(); ++i) {
    auto index = static_cast<int>(i);
    if (counts[i] == 0)
      continue;
    PlanReview::Recompute entry = {
        index, job.types[i].recompute, job.types[i].isRecomputeFixed, {}};
    for (Recomputation policy :
         getProfiledRecompute(job, model, index, stage)) {
      if (policy == entry.policy)
        continue;
      ClusterView view = job;
      view.types[i].recompute = policy;
      std::string error;
      std::optional<double> seconds;
      if (auto problem =
              makeBatchProblem(view, model, stage, written.globalBatch,
                               review.plan.state, error, written.replicas))
        if (auto best = makePolicy("exact", error)->solve(*problem, error))
          seconds = best->seconds;
      entry.others.emplace_back(policy, seconds);
    }
    review.recompute.push_back(std::move(entry));
  }
}

void Reviewer::addAlternatives(PlanReview &review,
                               const BatchPolicy &policy) const {
  PlanChoices choices;
  choices.globalBatch = written.globalBatch;
  choices.leaveOut = cluster.ranks.size() <= mostLeftOutOf;
  review.alternatives = searchPlans(cluster, model, policy, choices);
  const Allocation &now = review.plan.allocation;
  auto percent = [&](double seconds) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1f%%",
                  100 * (1 - seconds / now.seconds));
    return text + std::string(" less time");
  };
  // What is not worth a hundredth of a percent is not worth a line.
  auto isBetter = [&](double seconds) {
    return seconds < now.seconds * (1 - 1e-4);
  };
  // What was simulated beside the plan was found to be no better.
  double least = now.seconds;
  for (const Plan::Candidate &candidate : written.candidates)
    least = std::min(least, candidate.predicted);
  const PlanCandidate *best = review.alternatives.best();
  if (best && isBetter(best->allocation.seconds) &&
      best->allocation.seconds < least * (1 - 1e-4)) {
    std::string how = describeCandidate(cluster, *best);
    review.advice.push_back("stage " + std::to_string(best->stage) +
                            ", state " + describeSharding(*best) +
                            (how.empty() ? "" : ", " + how) + ": " +
                            percent(best->allocation.seconds));
  }
  for (size_t i = 0; i < cluster.types.size(); ++i) {
    const auto &less = review.explanation.whatIf[i].oneLess;
    if (less && isBetter(*less))
      review.advice.push_back("leave out one of '" + cluster.types[i].name +
                              "': " + percent(*less));
  }
}

bool Reviewer::run(PlanReview &review, std::string &error) {
  if (!findRanks(error) || !pose(review, error))
    return false;
  std::unique_ptr<BatchPolicy> policy = makePolicy(written.policy, error);
  if (!policy) { // a name that someone gave a plan of their own
    error.clear();
    policy = makePolicy("exact", error);
  }

  // From here on all devices of the cluster count.
  PlanCandidate &plan = review.plan;
  std::vector<int> all = cluster.countRanks();
  std::vector<double> state;
  std::string ignored;
  auto whole = poseProblem(cluster, model, plan.stage, plan.sharding,
                           written.globalBatch, state, ignored);
  review.curves.resize(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    auto &type = plan.problem.types[i];
    plan.allocation.types[i].dropped = all[i] - type.count;
    if (type.count > 0) {
      const DeviceProfile *profile =
          job.findProfile(static_cast<int>(i), plan.stage, model.fingerprint);
      review.curves[i] = {type.curve.points(), profile->isEstimate};
    } else if (whole) {
      type = whole->types[i];
    }
    type.count = all[i];
  }
  auto problemOf = [&](const std::vector<int64_t> &counts) {
    std::string error;
    std::vector<double> shares;
    auto view = resizeCluster(cluster, counts, nullptr, ranks);
    if (!view || view->ranks.empty())
      return std::optional<BatchProblem>();
    return poseProblem(*view, model, plan.stage, plan.sharding,
                       written.globalBatch, shares, error);
  };
  review.explanation = explain(plan.problem, plan.allocation, problemOf);
  addRanks(review);
  addRecompute(review);
  addAlternatives(review, *policy);
  return true;
}

Plan poplar::writePlan(const ClusterView &cluster,
                       const PlanCandidate &candidate) {
  Plan plan;
  plan.groups.front().zeroStage = candidate.stage;
  plan.globalBatch = candidate.problem.globalBatch;
  plan.policy = candidate.allocation.policy;
  plan.wires = candidate.wires;
  plan.replicas = candidate.replicas;
  std::vector<int64_t> seen(cluster.types.size());
  for (size_t i = 0; i < candidate.ranks.size(); ++i) {
    const ClusterRank &rank = cluster.ranks[candidate.ranks[i]];
    RankShare share =
        candidate.allocation.shareOf(rank.type, seen[rank.type]++);
    // A rank without samples still takes part in the last step's collectives.
    share.steps = std::max<int64_t>(share.steps, 1);
    const DeviceType &type = cluster.types[rank.type];
    plan.ranks.push_back({type.name, cluster.nodes[rank.node].name, share,
                          type.threads.value_or(1), candidate.state[i]});
  }
  return plan;
}

std::optional<PlanReview> poplar::reviewPlan(const ClusterView &cluster,
                                             const ModelFacts &model,
                                             const Plan &plan,
                                             std::string &error) {
  PlanReview review;
  review.candidates = plan.candidates;
  review.simulated = plan.simulated;
  ClusterView view = withWires(cluster, plan.wires);
  if (!Reviewer(view, model, plan).run(review, error))
    return std::nullopt;
  return review;
}

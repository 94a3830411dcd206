//===- PlanShortlist.cpp - Plans that are worth simulating ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanShortlist.h"
#include <algorithm>

using namespace poplar;

/// The policies whose plans are considered beside the optimum.
static constexpr const char *otherPolicies[] = {"poplar", "uniform", "whale"};

static bool isSame(const Allocation &a, const Allocation &b) {
  for (size_t i = 0; i < a.types.size(); ++i) {
    const auto &groups = a.types[i].groups, &others = b.types[i].groups;
    if (a.types[i].dropped != b.types[i].dropped ||
        !std::equal(groups.begin(), groups.end(), others.begin(), others.end(),
                    [](const auto &group, const auto &other) {
                      return group.count == other.count &&
                             group.share == other.share;
                    }))
      return false;
  }
  return true;
}

static bool isSame(const PlanCandidate &a, const PlanCandidate &b) {
  return a.stage == b.stage && a.ranks == b.ranks && a.state == b.state &&
         a.replicas == b.replicas && a.recompute == b.recompute &&
         isSame(a.allocation, b.allocation);
}

namespace {

class Shortlist {
public:
  Shortlist(const ClusterView &cluster, const ModelFacts &model,
            const PlanChoices &choices)
      : cluster(cluster), model(model), choices(choices) {}

  void add(const PlanCandidate &candidate) {
    for (const PlanCandidate &known : candidates)
      if (isSame(known, candidate))
        return;
    candidates.push_back(candidate);
  }
  void addOthersOf(const PlanCandidate &candidate);
  void addBaseline(const std::string &name);
  std::vector<PlanCandidate> take(size_t count);

private:
  const ClusterView &cluster;
  const ModelFacts &model;
  const PlanChoices &choices;
  std::vector<PlanCandidate> candidates;
  /// What other policies choose by themselves.
  std::vector<PlanCandidate> baselines;
};

} // namespace

/// Other shares of the same devices.
void Shortlist::addOthersOf(const PlanCandidate &candidate) {
  BatchProblem used = candidate.problem;
  for (size_t i = 0; i < used.types.size(); ++i)
    used.types[i].count -= candidate.allocation.types[i].dropped;
  std::string error;
  std::vector<Allocation> others = bestAllocations(used, 3, error);
  for (const char *name : otherPolicies)
    if (auto other = makePolicy(name, error)->solve(used, error))
      others.push_back(std::move(*other));
  for (Allocation &other : others) {
    PlanCandidate changed = candidate;
    for (size_t i = 0; i < used.types.size(); ++i)
      other.types[i].dropped += candidate.allocation.types[i].dropped;
    changed.allocation = std::move(other);
    add(changed);
  }
}

/// What a policy is when it is asked for by itself (--policy): the state is
/// shared equally. Which devices take part is the policy's to say.
void Shortlist::addBaseline(const std::string &name) {
  PlanChoices own = choices;
  own.shardings = {Sharding::Equal};
  own.leaveOut = false;
  std::string error;
  auto policy = makePolicy(name, error);
  PlanSearchResult result = searchPlans(cluster, model, *policy, own);
  if (const PlanCandidate *best = result.best())
    baselines.push_back(*best);
}

std::vector<PlanCandidate> Shortlist::take(size_t count) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const PlanCandidate &a, const PlanCandidate &b) {
                     return a.allocation.seconds < b.allocation.seconds;
                   });
  if (candidates.size() > count)
    candidates.resize(count);
  for (const PlanCandidate &baseline : baselines)
    add(baseline);
  return std::move(candidates);
}

std::vector<PlanCandidate>
poplar::shortlistPlans(const ClusterView &cluster, const ModelFacts &model,
                       const BatchPolicy &policy, const PlanChoices &choices,
                       const PlanSearchResult &found, size_t count) {
  Shortlist list(cluster, model, choices);
  for (const PlanOutcome &outcome : found.outcomes)
    if (outcome.best)
      list.add(*outcome.best);
  if (policy.getName() != "exact")
    return list.take(count);
  for (const PlanOutcome &outcome : found.outcomes)
    if (outcome.best)
      list.addOthersOf(*outcome.best);
  // Where they do what was asked for.
  if (std::find(choices.shardings.begin(), choices.shardings.end(),
                Sharding::Equal) != choices.shardings.end()) {
    for (const char *name : otherPolicies)
      list.addBaseline(name);
    std::vector<int> counts = cluster.countRanks();
    for (size_t i = 0; i < counts.size() && choices.leaveOut; ++i)
      if (counts[i] > 0)
        list.addBaseline("homogeneous:" + cluster.types[i].name);
  }
  return list.take(count);
}

//===- PlanSearch.cpp - From a cluster to a plan --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/PlanSearch.h"
#include <algorithm>

using namespace poplar;

/// Choices of what the types recompute that are tried one by one.
static constexpr size_t fewCombinations = 27;

/// How much work a search may be, in units of about a microsecond, and what it
/// takes to pose and solve one problem of a cluster. By size and not by the
/// clock, so that the same input gives the same plan on any machine.
static constexpr int64_t workOfSearch = 400000;
static int64_t workOfProblem(const ClusterView &cluster, Sharding sharding) {
  size_t points = 0;
  for (const DeviceProfile &profile : cluster.profiles)
    if (!profile.microBatches.empty())
      points += profile.microBatches.back();
  auto work = 20 + static_cast<int64_t>(cluster.ranks.size() + points) / 8;
  return sharding == Sharding::Memory ? 4 * work : work;
}

/// Differences by rounding are none.
static bool isFaster(const Allocation &a, const Allocation &b) {
  return a.seconds < b.seconds * (1 - 1e-12);
}

const char *poplar::toString(Sharding sharding) {
  return sharding == Sharding::Equal ? "equal" : "memory";
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// For each node the bandwidth of its best link to another.
static std::vector<double> getBestLinks(const ClusterView &cluster) {
  std::vector<double> best(cluster.nodes.size());
  std::vector<size_t> links(cluster.nodes.size());
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second) {
      ++links[ends.first];
      best[ends.first] = std::max(best[ends.first], link.bandwidth);
    }
  if (cluster.defaultBetween)
    for (size_t node = 0; node < best.size(); ++node)
      if (links[node] + 1 < best.size())
        best[node] = std::max(best[node], cluster.defaultBetween->bandwidth);
  return best;
}

std::optional<ClusterView>
poplar::resizeCluster(const ClusterView &cluster,
                      const std::vector<int64_t> &counts,
                      std::vector<int> *kept) {
  // Ranks by type, those to keep longest in front.
  std::vector<std::vector<int>> devices(cluster.types.size());
  for (size_t rank = 0; rank < cluster.ranks.size(); ++rank)
    devices[cluster.ranks[rank].type].push_back(static_cast<int>(rank));
  std::vector<double> best = getBestLinks(cluster);
  std::vector<int64_t> copies(cluster.ranks.size());
  for (size_t type = 0; type < devices.size(); ++type) {
    std::vector<int> &ranks = devices[type];
    auto count = static_cast<size_t>(counts[type]);
    if (count > 0 && ranks.empty())
      return std::nullopt;
    if (count > ranks.size())
      copies[ranks.back()] = static_cast<int64_t>(count - ranks.size());
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return best[cluster.ranks[a].node] > best[cluster.ranks[b].node];
    });
    for (size_t i = 0; i < std::min(count, ranks.size()); ++i)
      ++copies[ranks[i]];
  }

  ClusterView resized = cluster;
  resized.ranks.clear();
  if (kept)
    kept->clear();
  for (ClusterNode &node : resized.nodes) {
    int first = node.firstRank;
    node.firstRank = static_cast<int>(resized.ranks.size());
    for (int rank = first; rank < first + node.numRanks; ++rank) {
      resized.ranks.insert(resized.ranks.end(), copies[rank],
                           cluster.ranks[rank]);
      if (kept && copies[rank])
        kept->push_back(rank);
    }
    node.numRanks = static_cast<int>(resized.ranks.size()) - node.firstRank;
    auto index = static_cast<int>(&node - resized.nodes.data());
    if (node.numRanks > 1 && !resized.findLink(index, index))
      return std::nullopt;
  }
  return resized;
}

std::optional<BatchProblem>
poplar::poseProblem(const ClusterView &cluster, const ModelFacts &model,
                    int stage, Sharding sharding, int64_t globalBatch,
                    std::vector<double> &state, std::string &error) {
  state.assign(cluster.ranks.size(), 1.0);
  if (sharding == Sharding::Memory) {
    auto shares = shareStateByMemory(cluster, model, stage, error);
    if (!shares)
      return std::nullopt;
    state = std::move(*shares);
  }
  return makeBatchProblem(cluster, model, stage, globalBatch, state, error);
}

std::vector<std::string>
poplar::getProfiledRecompute(const ClusterView &cluster,
                             const ModelFacts &model, int type, int stage) {
  const std::string &own = cluster.types[type].recompute;
  std::vector<std::string> policies = {own};
  for (const char *policy : {"keep", "recompute-attention", "recompute-unit"})
    if (policy != own)
      policies.push_back(policy);
  ClusterView view;
  view.types = cluster.types;
  view.profiles = cluster.profiles;
  auto isMissing = [&](const std::string &policy) {
    view.types[type].recompute = policy;
    return !view.findProfile(type, stage, model.fingerprint);
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isMissing),
                 policies.end());
  return policies;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {

/// The search for one stage and sharding.
class StageSearch {
public:
  StageSearch(const ClusterView &cluster, const ModelFacts &model,
              const BatchPolicy &policy, const PlanChoices &choices, int stage,
              Sharding sharding);

  /// Sets `exhaustive` to false if not everything was tried.
  PlanOutcome run(bool &exhaustive);

private:
  using Combination = std::vector<size_t>;

  void chooseDevices();
  std::vector<std::string> getUsableRecompute(int type) const;
  void tryAllCombinations();
  void improveCombination();
  /// With all devices, or those that are best for the combination. True if it
  /// is better than what there was.
  bool consider(const Combination &combination, bool leaveOut);
  void apply(const Combination &combination);
  PlanCandidate makeCandidate();

  ClusterView cluster; // as the combination at hand has it
  const ModelFacts &model;
  const BatchPolicy &policy;
  const PlanChoices &choices;
  int stage;
  Sharding sharding;
  /// What each type may recompute.
  std::vector<std::vector<std::string>> recompute;
  /// Devices that there are, and that the policy wants to have.
  std::vector<int64_t> counts, usable;
  int64_t budget = 1;
  bool exhaustive = true;

  std::optional<DeviceSelection> best;
  Combination bestCombination;
  std::string firstError;
};

} // namespace

StageSearch::StageSearch(const ClusterView &cluster, const ModelFacts &model,
                         const BatchPolicy &policy, const PlanChoices &choices,
                         int stage, Sharding sharding)
    : cluster(cluster), model(model), policy(policy), choices(choices),
      stage(stage), sharding(sharding) {
  std::vector<DeviceProfile> &profiles = this->cluster.profiles;
  auto isOther = [&](const DeviceProfile &profile) {
    return profile.stage != stage;
  };
  profiles.erase(std::remove_if(profiles.begin(), profiles.end(), isOther),
                 profiles.end());
  for (int count : cluster.countRanks())
    counts.push_back(count);
}

/// The times and the memory of a job of one type, not of all devices. Where
/// nothing is left, the policy says so.
void StageSearch::chooseDevices() {
  usable = counts;
  const std::string &name = policy.getName();
  const std::string homogeneous = "homogeneous:";
  if (name.compare(0, homogeneous.size(), homogeneous) != 0)
    return;
  auto type = cluster.findType(name.substr(homogeneous.size()));
  if (!type || counts[*type] == 0)
    return;
  usable.assign(counts.size(), 0);
  usable[*type] = counts[*type];
}

void StageSearch::apply(const Combination &combination) {
  for (size_t i = 0; i < combination.size(); ++i)
    if (!recompute[i].empty())
      cluster.types[i].recompute = recompute[i][combination[i]];
}

bool StageSearch::consider(const Combination &combination, bool leaveOut) {
  apply(combination);
  std::string posed;
  auto problemOf =
      [&](const std::vector<int64_t> &chosen) -> std::optional<BatchProblem> {
    std::optional<ClusterView> view = resizeCluster(cluster, chosen);
    if (!view || view->ranks.empty())
      return std::nullopt;
    std::string error;
    std::vector<double> state;
    auto problem = poseProblem(*view, model, stage, sharding,
                               choices.globalBatch, state, error);
    if (!problem && posed.empty())
      posed = error;
    return problem;
  };
  std::string error;
  auto selection =
      selectDevices(usable, problemOf, policy, error, leaveOut ? budget : 1);
  if (!selection) {
    if (firstError.empty())
      firstError = posed.empty() ? error : posed;
    return false;
  }
  if (leaveOut && !selection->exhaustive)
    exhaustive = false;
  if (best && !isFaster(selection->allocation, best->allocation))
    return false;
  best = std::move(*selection);
  bestCombination = combination;
  return true;
}

void StageSearch::tryAllCombinations() {
  Combination combination(recompute.size());
  while (true) {
    consider(combination, choices.leaveOut);
    size_t i = 0;
    for (; i < combination.size(); ++i) {
      if (++combination[i] < recompute[i].size())
        break;
      combination[i] = 0;
    }
    if (i == combination.size())
      return;
  }
}

/// One type at a time with all devices, from what types are set to and from
/// what takes least memory; then the devices.
void StageSearch::improveCombination() {
  exhaustive = false;
  Combination own(recompute.size()), least(recompute.size());
  for (size_t i = 0; i < least.size(); ++i)
    least[i] = recompute[i].empty() ? 0 : recompute[i].size() - 1;
  consider(own, false);
  consider(least, false);
  for (bool improved = best.has_value(); improved;) {
    improved = false;
    for (size_t i = 0; i < recompute.size(); ++i)
      for (size_t policy = 0; policy < recompute[i].size(); ++policy) {
        Combination changed = bestCombination;
        if (changed[i] == policy)
          continue;
        changed[i] = policy;
        improved |= consider(changed, false);
      }
  }
  if (!choices.leaveOut)
    return;
  // Not all devices need fit together.
  if (best)
    consider(Combination(bestCombination), true);
  else if (!consider(own, true))
    consider(least, true);
}

std::vector<std::string> StageSearch::getUsableRecompute(int type) const {
  std::vector<std::string> policies =
      getProfiledRecompute(cluster, model, type, stage);
  ClusterView view = cluster;
  auto isOfNoUse = [&](const std::string &policy) {
    if (!choices.chooseRecompute && policy != cluster.types[type].recompute)
      return true;
    view.types[type].recompute = policy;
    // By memory means that it has to be known.
    return sharding == Sharding::Memory && stage > 0 &&
           !view.findProfile(type, stage, model.fingerprint)->memory;
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isOfNoUse),
                 policies.end());
  return policies;
}

PlanCandidate StageSearch::makeCandidate() {
  PlanCandidate candidate;
  candidate.stage = stage;
  candidate.sharding = sharding;
  apply(bestCombination);
  for (const DeviceType &type : cluster.types)
    candidate.recompute.push_back(type.recompute);
  std::string error;
  auto view = resizeCluster(cluster, best->counts, &candidate.ranks);
  poseProblem(*view, model, stage, sharding, choices.globalBatch,
              candidate.state, error);
  candidate.problem = std::move(best->problem);
  candidate.allocation = std::move(best->allocation);
  for (size_t i = 0; i < counts.size(); ++i) {
    candidate.problem.types[i].count = counts[i];
    candidate.allocation.types[i].dropped += counts[i] - usable[i];
  }
  return candidate;
}

PlanOutcome StageSearch::run(bool &allTried) {
  PlanOutcome outcome = {stage, sharding, std::nullopt, ""};
  chooseDevices();
  size_t combinations = 1;
  for (size_t i = 0; i < counts.size(); ++i) {
    recompute.emplace_back();
    if (usable[i] == 0)
      continue;
    recompute[i] = getUsableRecompute(static_cast<int>(i));
    // What is not known is no reason to leave devices out: posing the problem
    // of all of them says what is missing.
    if (recompute[i].empty()) {
      std::vector<double> state;
      auto view = resizeCluster(cluster, usable);
      poseProblem(*view, model, stage, sharding, choices.globalBatch, state,
                  outcome.error);
      return outcome;
    }
    combinations =
        std::min(combinations * recompute[i].size(), fewCombinations + 1);
  }
  auto searches =
      static_cast<int64_t>(choices.stages.size() * choices.shardings.size());
  budget = workOfSearch / searches / workOfProblem(cluster, sharding);
  if (combinations <= fewCombinations) {
    budget = std::max<int64_t>(budget / static_cast<int64_t>(combinations), 64);
    tryAllCombinations();
  } else {
    budget = std::max<int64_t>(budget, 64);
    improveCombination();
  }
  if (best)
    outcome.best = makeCandidate();
  else
    outcome.error = firstError;
  allTried &= exhaustive;
  return outcome;
}

PlanSearchResult poplar::searchPlans(const ClusterView &cluster,
                                     const ModelFacts &model,
                                     const BatchPolicy &policy,
                                     const PlanChoices &choices) {
  PlanSearchResult result;
  for (int stage : choices.stages)
    for (Sharding sharding : choices.shardings) {
      // Nothing is sharded in stage 0.
      if (stage == 0 && sharding != choices.shardings.front())
        continue;
      result.outcomes.push_back(
          StageSearch(cluster, model, policy, choices, stage, sharding)
              .run(result.exhaustive));
    }
  return result;
}

const PlanCandidate *PlanSearchResult::best() const {
  const PlanCandidate *best = nullptr;
  for (const PlanOutcome &outcome : outcomes)
    if (outcome.best &&
        (!best || isFaster(outcome.best->allocation, best->allocation)))
      best = &*outcome.best;
  return best;
}

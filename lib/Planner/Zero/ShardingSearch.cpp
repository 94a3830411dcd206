//===- ShardingSearch.cpp - Plans of a ZeRO stage -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Zero/ShardingSearch.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include <algorithm>
#include <cmath>

using namespace poplar;

/// Choices of what the types recompute that are tried one by one.
static constexpr size_t fewCombinations = 27;

/// How much work a search may be, in units of about a microsecond, and what it
/// takes to pose and solve one problem of a cluster. By size and not by the
/// clock, so that the same input gives the same plan on any machine.
static constexpr int64_t workOfSearch = 1200000;
/// Problems of each combination and in all, at least; and where each is one for
/// every number of replicas, of so many ranks or more.
static constexpr int64_t fewestProblems = 64, fewestReplicated = 8;
static constexpr size_t manyRanks = 1024;
static int64_t workOfProblem(const ClusterView &cluster, Sharding sharding) {
  size_t points = 0;
  for (const DeviceProfile &profile : cluster.profiles)
    if (!profile.microBatches.empty())
      points += profile.microBatches.back();
  auto work = 20 + static_cast<int64_t>(cluster.ranks.size() + points) / 8;
  switch (sharding) {
  case Sharding::Equal:
    return work;
  case Sharding::Memory:
    return 4 * work;
  case Sharding::Replicated:
    break;
  }
  return 40 * work;
}

ShardingSearch::ShardingSearch(const ClusterView &cluster,
                               const ModelFacts &model,
                               const BatchPolicy &policy,
                               const PlanChoices &choices, int stage,
                               Sharding sharding, Hints &hints,
                               KnownTraffic &traffic)
    : cluster(cluster), model(model), policy(policy), choices(choices),
      stage(stage), sharding(sharding), hints(hints), traffic(traffic) {
  std::vector<DeviceProfile> &profiles = this->cluster.profiles;
  auto isOther = [&](const DeviceProfile &profile) {
    return profile.stage != stage;
  };
  profiles.erase(std::remove_if(profiles.begin(), profiles.end(), isOther),
                 profiles.end());
  numProfiles = profiles.size();
  for (int count : cluster.countRanks())
    counts.push_back(count);
}

/// The times and the memory of a job of one type, not of all devices. Where
/// nothing is left, the policy says so.
void ShardingSearch::chooseDevices() {
  usable = counts;
  space = DeviceSpace(cluster, std::vector<bool>(counts.size(), true));
  const std::string &name = policy.getName();
  const std::string homogeneous = "homogeneous:";
  if (name.compare(0, homogeneous.size(), homogeneous) != 0)
    return;
  auto type = cluster.findType(name.substr(homogeneous.size()));
  if (!type || counts[*type] == 0)
    return;
  usable.assign(counts.size(), 0);
  usable[*type] = counts[*type];
  std::vector<bool> isUsable(counts.size());
  isUsable[*type] = true;
  space = DeviceSpace(cluster, isUsable);
}

std::optional<PosedJob> ShardingSearch::pose(const std::vector<int64_t> &choice,
                                             double limit, std::string &error) {
  JobDevices devices(cluster, space, choice);
  if (devices.numRanks == 0)
    return std::nullopt;
  // What is no better than with other recomputation is of no use, either.
  if (sharding != Sharding::Equal && stage > 0 && best)
    limit = std::min(limit, best->allocation.seconds);
  // Most choices of devices are too slow whatever is communicated, and whatever
  // memory there is.
  if (std::isfinite(limit))
    if (auto free = listDeviceTypes(cluster, devices.counts, model, stage,
                                    choices.globalBatch, error))
      if (double least = free->getLeastSeconds(); least > limit * (1 + 1e-9))
        return PosedJob{std::nullopt, {}, least};
  auto found = traffic.find(choice);
  if (found == traffic.end()) {
    const ClusterView *view = devices.getView();
    if (!view)
      return std::nullopt;
    found = traffic.emplace(choice, *view).first;
  }
  RankTraffic &known = found->second;
  if (sharding == Sharding::Equal || stage == 0)
    return poseEqually(devices, known.rates, model, stage, choices.globalBatch,
                       error);
  if (sharding == Sharding::Replicated)
    return poseReplicated(devices, known, model, policy, stage,
                          choices.globalBatch, limit, error);
  return poseByMemory(devices, known, model, policy, stage, choices.globalBatch,
                      limit, error);
}

void ShardingSearch::apply(const Combination &combination) {
  std::vector<Recomputation> choice = getRecompute();
  for (size_t i = 0; i < combination.size(); ++i)
    if (!recompute[i].empty())
      choice[i] = recompute[i][combination[i]];
  apply(choice);
}

bool ShardingSearch::consider(const Combination &combination, int64_t budget) {
  apply(combination);
  std::string posed;
  auto jobOf = [&](const std::vector<int64_t> &choice, double limit) {
    std::string error;
    std::optional<PosedJob> job = pose(choice, limit, error);
    if (!job && posed.empty())
      posed = error;
    return job;
  };
  std::string error;
  auto selection = selectDevices(space, jobOf, policy, error, budget, hints);
  if (!selection) {
    if (firstError.empty())
      firstError = posed.empty() ? error : posed;
    return false;
  }
  if (budget > 1 && !selection->exhaustive)
    untried.devices = true;
  if (!selection->hasBestShares)
    untried.shares = true;
  if (budget > 1 &&
      std::find(hints.begin(), hints.end(), selection->counts) == hints.end())
    hints.push_back(selection->counts);
  takeFewestLayers(*selection);
  if (best && !isFaster(selection->allocation, best->allocation))
    return false;
  best = std::move(*selection);
  bestCombination = combination;
  bestRecompute = getRecompute();
  return true;
}

size_t ShardingSearch::countCombinations() const {
  size_t combinations = 1;
  for (size_t i = 0; i < recompute.size(); ++i)
    if (leaders[i] == i && !recompute[i].empty())
      combinations =
          std::min(combinations * recompute[i].size(), fewCombinations + 1);
  return combinations;
}

void ShardingSearch::tieTypes() {
  auto isAlike = [&](size_t a, size_t b) {
    return recompute[a] == recompute[b] &&
           areAlike(cluster, static_cast<int>(a), static_cast<int>(b));
  };
  for (size_t i = 0; i < recompute.size(); ++i)
    for (size_t j = 0; j < i && leaders[i] == i; ++j)
      if (isAlike(i, j)) {
        leaders[i] = leaders[j];
        untried.recompute |= recompute[i].size() > 1;
      }
}

void ShardingSearch::tryAllCombinations() {
  Combination combination(recompute.size());
  while (true) {
    for (size_t i = 0; i < combination.size(); ++i)
      combination[i] = combination[leaders[i]];
    consider(combination, choices.leaveOut ? budget : 1);
    size_t i = 0;
    for (; i < combination.size(); ++i) {
      if (leaders[i] != i)
        continue;
      if (++combination[i] < recompute[i].size())
        break;
      combination[i] = 0;
    }
    if (i == combination.size())
      return;
  }
}

bool ShardingSearch::improveOneByOne(int64_t budget) {
  bool improved = false;
  for (size_t i = 0; i < recompute.size(); ++i)
    for (size_t policy = 0; policy < recompute[i].size(); ++policy) {
      Combination changed = bestCombination;
      if (leaders[i] != i || changed[i] == policy)
        continue;
      for (size_t j = i; j < changed.size(); ++j)
        if (leaders[j] == i)
          changed[j] = policy;
      improved |= consider(changed, budget);
    }
  return improved;
}

/// One type at a time with all devices, from what types are set to and from
/// what takes least memory; then the devices, then types again with these.
void ShardingSearch::improveCombination() {
  untried.recompute = true;
  Combination own(recompute.size()), least(recompute.size());
  for (size_t i = 0; i < least.size(); ++i)
    least[i] = recompute[i].empty() ? 0 : recompute[i].size() - 1;
  consider(own, 1);
  consider(least, 1);
  while (best && improveOneByOne(1))
    ;
  if (!choices.leaveOut)
    return;
  // Not all devices need fit together.
  if (best)
    consider(Combination(bestCombination), budget);
  else if (!consider(own, budget))
    consider(least, budget);
  auto few = static_cast<int64_t>(hints.size()) + 2;
  for (int round = 0; round < 3 && best && improveOneByOne(few); ++round)
    consider(Combination(bestCombination), budget / 2);
}

std::vector<Recomputation> ShardingSearch::getUsableRecompute(int type) const {
  std::vector<Recomputation> policies =
      getProfiledRecompute(cluster, model, type, stage);
  auto isOfNoUse = [&](Recomputation policy) {
    if (!choices.chooseRecompute && policy != cluster.types[type].recompute)
      return true;
    // By memory means that it has to be known.
    return sharesByMemory() &&
           !cluster.findProfile(type, stage, model.fingerprint, policy)->memory;
  };
  policies.erase(std::remove_if(policies.begin(), policies.end(), isOfNoUse),
                 policies.end());
  eraseDominated(type, policies);
  return policies;
}

/// A policy is of no use beside one that is as fast and that fits whatever the
/// rank holds of the state.
void ShardingSearch::eraseDominated(
    int type, std::vector<Recomputation> &policies) const {
  // Where memory decides who holds what, less memory is an end in itself.
  if (policies.size() < 2 || sharesByMemory())
    return;
  struct Known {
    const DeviceProfile *profile;
    Curve curve;
    int64_t largest = 0;
  };
  std::vector<Known> known;
  for (Recomputation policy : policies) {
    const DeviceProfile *profile =
        cluster.findProfile(type, stage, model.fingerprint, policy);
    std::string error;
    std::optional<Curve> curve = profile->fitCurve(error);
    if (!curve)
      return;
    Known entry = {profile, *curve, curve->largest()};
    if (profile->maxMicroBatch)
      entry.largest = std::min(entry.largest, *profile->maxMicroBatch);
    known.push_back(entry);
  }
  auto dominates = [&](const Known &a, const Known &b) {
    int64_t used = std::min(b.largest, choices.globalBatch), fits = a.largest;
    if (a.profile->memory) {
      int64_t free = cluster.types[type].memory -
                     getFixedBytes(*a.profile, cluster.types[type], model,
                                   stage, 1, cluster.wires);
      if (free < 0)
        return false;
      if (a.profile->memory->perSample > 0)
        fits = std::min(fits, free / a.profile->memory->perSample);
    }
    if (fits < used || a.profile->optimizerSeconds.value_or(0) >
                           b.profile->optimizerSeconds.value_or(0))
      return false;
    for (int64_t batch = 1; batch <= used; ++batch)
      if (a.curve.seconds(batch) > b.curve.seconds(batch))
        return false;
    return true;
  };
  // The first of equals stays.
  for (size_t i = policies.size(); i-- > 0;)
    for (size_t j = 0; j < policies.size(); ++j)
      if (i != j && dominates(known[j], known[i]) &&
          (j < i || !dominates(known[i], known[j]))) {
        policies.erase(policies.begin() + static_cast<ptrdiff_t>(i));
        known.erase(known.begin() + static_cast<ptrdiff_t>(i));
        break;
      }
}

PlanCandidate ShardingSearch::makeCandidate() {
  PlanCandidate candidate;
  candidate.stage = stage;
  candidate.sharding = sharding;
  apply(bestRecompute);
  candidate.recompute = bestRecompute;
  candidate.derived.assign(cluster.profiles.begin() +
                               static_cast<ptrdiff_t>(numProfiles),
                           cluster.profiles.end());
  takeChoice(cluster, space, best->counts, &candidate.ranks);
  candidate.state = std::move(best->state);
  candidate.replicas = best->replicas;
  candidate.problem = std::move(best->problem);
  candidate.allocation = std::move(best->allocation);
  candidate.wires = cluster.wires;
  for (size_t i = 0; i < counts.size(); ++i) {
    candidate.problem.types[i].count = counts[i];
    candidate.allocation.types[i].dropped += counts[i] - usable[i];
  }
  return candidate;
}

void ShardingSearch::run() {
  chooseDevices();
  for (size_t i = 0; i < counts.size(); ++i) {
    recompute.emplace_back();
    leaders.push_back(i);
    if (usable[i] == 0)
      continue;
    recompute[i] = getUsableRecompute(static_cast<int>(i));
    // What is not known is no reason to leave devices out: posing the problem
    // of all of them says what is missing.
    if (recompute[i].empty()) {
      std::vector<double> state;
      auto view = resizeCluster(cluster, usable);
      poseProblem(*view, model, stage, sharding, choices.globalBatch, state,
                  firstError);
      return;
    }
  }
  // Where one policy is enough, so it is for some layers.
  for (size_t i = 0; i < counts.size(); ++i)
    for (RecomputePolicy policy : listWords<RecomputePolicy>())
      triesLayers |=
          recompute[i].size() > 1 && findLayers(static_cast<int>(i), policy);
  if (countCombinations() > fewCombinations)
    tieTypes();
  auto combinations = static_cast<int64_t>(countCombinations());
  auto searches =
      static_cast<int64_t>(choices.stages.size() * choices.shardings.size());
  budget = workOfSearch / searches / workOfProblem(cluster, sharding);
  int64_t fewest =
      sharding == Sharding::Replicated && cluster.ranks.size() >= manyRanks
          ? fewestReplicated
          : fewestProblems;
  if (combinations <= static_cast<int64_t>(fewCombinations)) {
    budget = std::max(budget / combinations, fewest);
    tryAllCombinations();
  } else {
    budget = std::max(budget, fewest);
    improveCombination();
  }
}

void ShardingSearch::refine() {
  if (!best || !untried.any() || !choices.leaveOut)
    return;
  consider(Combination(bestCombination), budget);
}

PlanOutcome ShardingSearch::finish(Untried &ofAll) {
  PlanOutcome outcome = {stage, sharding, std::nullopt, ""};
  if (best) {
    outcome.best = makeCandidate();
  } else {
    outcome.error = firstError;
  }
  ofAll.devices |= untried.devices;
  ofAll.recompute |= untried.recompute || (triesLayers && best && !layersBound);
  ofAll.shares |= untried.shares;
  return outcome;
}

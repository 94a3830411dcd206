//===- LayerSearch.cpp - Recomputation of some layers ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Zero/ShardingSearch.h"
#include <algorithm>

using namespace poplar;

/// Numbers of layers that may recompute, for a type, which are tried one by
/// one; none are for plans that take more than so many times the best plan's
/// time, as what is computed again is a third of a step.
static constexpr size_t mostLayerCounts = 8;
static constexpr double farFromBest = 4.0 / 3;

std::vector<Recomputation> ShardingSearch::getRecompute() const {
  std::vector<Recomputation> choice;
  for (const DeviceType &type : cluster.types)
    choice.push_back(type.recompute);
  return choice;
}

/// Types that are fixed to some layers have a profile of that.
void ShardingSearch::apply(const std::vector<Recomputation> &choice) {
  cluster.profiles.erase(cluster.profiles.begin() +
                             static_cast<ptrdiff_t>(numProfiles),
                         cluster.profiles.end());
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    cluster.types[i].recompute = choice[i];
    if (choice[i].isPartial() &&
        !cluster.findProfile(type, stage, model.fingerprint))
      if (std::optional<DeviceProfile> profile = deriveProfile(type, choice[i]))
        cluster.profiles.push_back(std::move(*profile));
  }
}

/// Null where the policy holds for the whole model or nothing.
const RecomputedLayers *
ShardingSearch::findLayers(int type, RecomputePolicy policy) const {
  auto index = static_cast<size_t>(type);
  if (!choices.chooseRecompute || index >= choices.layers.size() ||
      cluster.types[index].isRecomputeFixed)
    return nullptr;
  // A profile of a device on which no sample fits has no times.
  auto isUsable = [&](RecomputePolicy known) {
    const DeviceProfile *profile =
        cluster.findProfile(type, stage, model.fingerprint, known);
    return profile && profile->memory && !profile->microBatches.empty();
  };
  for (const RecomputedLayers &own : choices.layers[index])
    if (own.policy == policy && !own.layers.empty() && isUsable(policy) &&
        isUsable(RecomputePolicy::Keep))
      return &own;
  return nullptr;
}

std::optional<DeviceProfile>
ShardingSearch::deriveProfile(int type, Recomputation recompute) const {
  const RecomputedLayers *own = findLayers(type, recompute.policy);
  if (!own)
    return std::nullopt;
  return own->derive(
      *cluster.findProfile(type, stage, model.fingerprint,
                           RecomputePolicy::Keep),
      *cluster.findProfile(type, stage, model.fingerprint, recompute.policy),
      recompute.layers);
}

std::optional<int64_t>
ShardingSearch::getLargestBatch(const DeviceSelection &selection, int type,
                                Recomputation recompute) const {
  const DeviceProfile *now =
                          cluster.findProfile(type, stage, model.fingerprint),
                      *keep =
                          cluster.findProfile(type, stage, model.fingerprint,
                                              RecomputePolicy::Keep),
                      *all = cluster.findProfile(type, stage, model.fingerprint,
                                                 recompute.policy);
  auto memory = findLayers(type, recompute.policy)
                    ->getMemory(*keep, *all, recompute.layers);
  if (!memory || !now->memory || all->microBatches.empty())
    return std::nullopt;
  // The state is the same.
  int64_t free = cluster.types[type].memory -
                 (selection.problem.types[type].fixedBytes + memory->fixed -
                  now->memory->fixed),
          largest = std::min(all->microBatches.back(), choices.globalBatch);
  if (memory->perSample > 0)
    largest = std::min(largest, std::max<int64_t>(free, 0) / memory->perSample);
  return largest;
}

/// Replaces `selection` by the same devices that recompute something else, if
/// that is faster.
bool ShardingSearch::tryRecompute(const std::vector<Recomputation> &choice,
                                  DeviceSelection &selection) {
  std::vector<Recomputation> before = getRecompute();
  apply(choice);
  std::string error;
  std::optional<PosedJob> job =
      pose(selection.counts, selection.allocation.seconds, error);
  std::optional<Allocation> allocation;
  if (job && job->problem)
    allocation = policy.solve(*job->problem, error);
  if (!allocation || !isFaster(*allocation, selection.allocation)) {
    apply(before);
    return false;
  }
  std::vector<int64_t> used = space.countTypes(selection.counts),
                       all = space.countTypes(space.all());
  for (size_t i = 0; i < used.size(); ++i) {
    allocation->types[i].dropped += all[i] - used[i];
    job->problem->types[i].count = all[i];
  }
  selection.problem = std::move(*job->problem);
  selection.allocation = std::move(*allocation);
  selection.state = std::move(job->state);
  selection.replicas = job->replicas;
  selection.hasBestShares &= job->isExact;
  return true;
}

static int64_t getLargestStep(const Allocation::TypeShares &shares) {
  int64_t largest = 0;
  for (const Allocation::Group &group : shares.groups)
    largest = std::max(largest, group.share.largestStep());
  return largest;
}

/// Takes the fewest layers that the micro-batches of each type need.
void ShardingSearch::takeFewestLayers(DeviceSelection &selection) {
  std::vector<Recomputation> choice = getRecompute();
  if (best &&
      selection.allocation.seconds > farFromBest * best->allocation.seconds)
    return;
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    RecomputePolicy policy = choice[i].policy;
    int64_t microBatch = getLargestStep(selection.allocation.types[i]);
    const RecomputedLayers *own = findLayers(type, policy);
    if (microBatch == 0 || !own)
      continue;
    // More fits with more layers.
    int64_t least = 1, most = own->countLayers();
    if (getLargestBatch(selection, type, {policy, most}) < microBatch)
      continue;
    while (least < most) {
      int64_t middle = (least + most) / 2;
      if (getLargestBatch(selection, type, {policy, middle}) >= microBatch)
        most = middle;
      else
        least = middle + 1;
    }
    choice[i].layers = most;
  }
  if (choice != getRecompute())
    tryRecompute(choice, selection);
}

/// Tries numbers of layers for a type of `best`: those with which a larger
/// micro-batch fits than with one less, or some of them where they are many.
bool ShardingSearch::improveLayers(int type) {
  const auto index = static_cast<size_t>(type);
  bool improved = false;
  for (RecomputePolicy policy : listWords<RecomputePolicy>()) {
    apply(bestRecompute);
    const RecomputedLayers *own = findLayers(type, policy);
    if (!own || recompute[index].size() < 2)
      continue;
    std::vector<int64_t> useful;
    std::optional<int64_t> fits;
    for (int64_t layers = 1; layers <= own->countLayers(); ++layers) {
      auto more = getLargestBatch(*best, type, {policy, layers});
      if (more && *more > fits.value_or(0))
        useful.push_back(layers);
      fits = more;
    }
    size_t step = (useful.size() + mostLayerCounts - 1) / mostLayerCounts;
    for (size_t i = 0; i < useful.size(); i += step) {
      std::vector<Recomputation> choice = bestRecompute;
      choice[index] = {policy, useful[i]};
      if (choice == bestRecompute || !tryRecompute(choice, *best))
        continue;
      takeFewestLayers(*best);
      bestRecompute = getRecompute();
      improved = true;
    }
  }
  return improved;
}

void ShardingSearch::improveAllLayers(double seconds) {
  bool improved = best && best->allocation.seconds <= farFromBest * seconds;
  for (int round = 0; round < 3 && improved; ++round) {
    improved = false;
    for (size_t i = 0; i < counts.size(); ++i)
      if (best->allocation.types[i].dropped < best->problem.types[i].count)
        improved |= improveLayers(static_cast<int>(i));
  }
}

/// Lets types take the time of keeping everything, and the memory of
/// recomputing everything. False where that does not cover all that they may
/// recompute.
bool ShardingSearch::applyLeast() {
  std::vector<Recomputation> choice = getRecompute();
  std::vector<DeviceProfile> least;
  for (size_t i = 0; i < choice.size(); ++i) {
    auto type = static_cast<int>(i);
    if (recompute[i].empty())
      continue;
    const RecomputedLayers *own = findLayers(type, RecomputePolicy::Unit);
    if (recompute[i].size() == 1) {
      choice[i] = recompute[i].front();
      continue;
    }
    if (!own)
      return false;
    const DeviceProfile *all = cluster.findProfile(
        type, stage, model.fingerprint, RecomputePolicy::Unit);
    auto profile =
        own->derive(*cluster.findProfile(type, stage, model.fingerprint,
                                         RecomputePolicy::Keep),
                    *all, 0);
    if (!profile)
      return false;
    profile->memory = all->memory;
    // It is looked up as that of one layer.
    choice[i] = profile->recompute = {RecomputePolicy::Unit, 1};
    least.push_back(std::move(*profile));
  }
  apply(std::vector<Recomputation>(choice.size()));
  for (size_t i = 0; i < choice.size(); ++i)
    cluster.types[i].recompute = choice[i];
  cluster.profiles.insert(cluster.profiles.end(), least.begin(), least.end());
  return true;
}

void ShardingSearch::boundLayers() {
  if (!triesLayers || !best || untried.any() || !applyLeast())
    return;
  std::string error;
  auto jobOf = [&](const std::vector<int64_t> &choice, double limit) {
    return pose(choice, limit, error);
  };
  int64_t most = choices.leaveOut ? budget : 1;
  auto selection = selectDevices(space, jobOf, policy, error, most, hints);
  // Where none is faster than the best plan, there may be no other.
  if (!selection)
    layersBound = best->allocation.seconds;
  else if ((most == 1 || selection->exhaustive) && selection->hasBestShares)
    layersBound = selection->allocation.seconds;
}

//===- PlanSearch.cpp - From a cluster to a plan --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Planner/Zero/ZeroBound.h"
#include "Zero/ShardingSearch.h"
#include <algorithm>

using namespace poplar;

const char *poplar::toString(Sharding sharding) {
  switch (sharding) {
  case Sharding::Equal:
    return "equal";
  case Sharding::Memory:
    return "memory";
  case Sharding::Replicated:
    break;
  }
  return "replicated";
}

std::vector<Sharding> poplar::readShardings(const std::string &word) {
  std::vector<Sharding> shardings;
  for (Sharding sharding :
       {Sharding::Equal, Sharding::Memory, Sharding::Replicated})
    if (word == "auto" || word == toString(sharding))
      shardings.push_back(sharding);
  return shardings;
}

std::string Untried::describe() const {
  std::string text;
  auto add = [&](bool isUntried, const char *what) {
    if (isUntried)
      text += (text.empty() ? "" : " and ") + std::string(what);
  };
  add(devices, "devices");
  add(recompute, "what types recompute");
  add(shares, "shares of the state");
  return text;
}

PlanSearchResult poplar::searchPlans(const ClusterView &cluster,
                                     const ModelFacts &model,
                                     const BatchPolicy &policy,
                                     const PlanChoices &choices) {
  PlanSearchResult result;
  Hints hints;
  KnownTraffic traffic;
  std::vector<ShardingSearch> searches;
  for (int stage : choices.stages)
    for (Sharding sharding : choices.shardings)
      // Nothing is sharded in stage 0.
      if (stage > 0 || sharding == choices.shardings.front())
        searches.emplace_back(cluster, model, policy, choices, stage, sharding,
                              hints, traffic);
  for (ShardingSearch &search : searches)
    search.run();
  for (ShardingSearch &search : searches)
    search.refine();
  double seconds = std::numeric_limits<double>::infinity();
  for (ShardingSearch &search : searches)
    seconds = std::min(seconds, search.getSeconds().value_or(seconds));
  for (ShardingSearch &search : searches)
    search.improveAllLayers(seconds);
  for (ShardingSearch &search : searches)
    search.boundLayers();
  for (ShardingSearch &search : searches) {
    PlanOutcome outcome = search.finish(result.untried);
    // Most clusters are too small for replicas, or their nodes too unlike.
    if (outcome.best || outcome.sharding != Sharding::Replicated ||
        choices.shardings.size() == 1)
      result.outcomes.push_back(std::move(outcome));
  }
  if (const PlanCandidate *best = result.best()) {
    double seconds = best->allocation.seconds;
    bool isShared = std::any_of(
        searches.begin(), searches.end(),
        [](const ShardingSearch &search) { return search.sharesByMemory(); });
    double least = seconds;
    for (const ShardingSearch &search : searches)
      least = std::min(least, search.getLowerBound());
    result.lowerBound =
        result.untried.any()
            ? std::min(findZeroBound(cluster, model, choices), seconds)
            : least * (isShared ? 1 - ShareSearch::tolerance : 1);
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

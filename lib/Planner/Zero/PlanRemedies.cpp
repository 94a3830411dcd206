//===- PlanRemedies.cpp - What would make a plan fit ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanRemedies.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Support/Text.h"
#include <algorithm>
#include <functional>

using namespace poplar;

/// More than any device has (cluster files are refused above it).
static constexpr int64_t unlimitedBytes = int64_t(1) << 42;

/// The least n in (low, high] for which `works`, which holds for `high` and for
/// all above the least.
static int64_t findLeast(int64_t low, int64_t high,
                         const std::function<bool(int64_t)> &works) {
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (works(middle) ? high : low) = middle;
  }
  return high;
}

namespace {

class RemedySearch {
public:
  RemedySearch(const ClusterView &cluster, const ModelFacts &model,
               const BatchPolicy &policy, const PlanChoices &choices)
      : cluster(cluster), model(model), policy(policy), choices(choices),
        counts(cluster.types.size()) {
    for (const ClusterRank &rank : cluster.ranks)
      ++counts[rank.type];
  }

  std::vector<std::string> run();

private:
  bool hasPlan(const ClusterView &view, const PlanChoices &choices) const {
    return searchPlans(view, model, policy, choices).best() != nullptr;
  }
  /// A job of these devices, all of them.
  bool hasPlanOfAll(const ClusterView &view) const {
    PlanChoices all = choices;
    all.leaveOut = false;
    return hasPlan(view, all);
  }
  bool hasPlanOfAllOrType(const ClusterView &view, size_t type) const;
  ClusterView withMemory(const std::vector<int64_t> &bytes) const;

  void addChoices();
  void addMemory();
  void addMemoryOfSeveral();
  void addDevices();

  const ClusterView &cluster;
  const ModelFacts &model;
  const BatchPolicy &policy;
  const PlanChoices &choices;
  std::vector<int64_t> counts;
  std::vector<std::string> remedies;
};

} // namespace

bool RemedySearch::hasPlanOfAllOrType(const ClusterView &view,
                                      size_t type) const {
  if (hasPlanOfAll(view))
    return true;
  std::vector<int64_t> alone(counts.size());
  alone[type] = counts[type];
  return choices.leaveOut && hasPlanOfAll(*resizeCluster(view, alone));
}

ClusterView RemedySearch::withMemory(const std::vector<int64_t> &bytes) const {
  ClusterView view = cluster;
  for (size_t i = 0; i < bytes.size(); ++i)
    view.types[i].memory = bytes[i];
  return view;
}

void RemedySearch::addChoices() {
  auto consider = [&](const std::string &text, const PlanChoices &wider) {
    if (hasPlan(cluster, wider))
      remedies.push_back(text);
  };
  for (int stage = choices.stages.back() + 1; stage <= 3; ++stage) {
    PlanChoices wider = choices;
    wider.stages = {stage};
    size_t before = remedies.size();
    consider("in stage " + std::to_string(stage), wider);
    if (remedies.size() > before)
      break; // the lowest is the smallest change
  }
  PlanChoices wider = choices;
  wider.shardings = {Sharding::Memory};
  if (choices.shardings == std::vector<Sharding>{Sharding::Equal})
    consider("with the state shared by memory", wider);
  wider = choices;
  wider.leaveOut = true;
  if (!choices.leaveOut)
    consider("with devices left out", wider);
  wider = choices;
  wider.chooseRecompute = true;
  if (!choices.chooseRecompute)
    consider("with other types recomputing what they have profiles for", wider);
}

void RemedySearch::addMemory() {
  std::vector<int64_t> own;
  for (const DeviceType &type : cluster.types)
    own.push_back(type.memory);
  size_t before = remedies.size();
  for (size_t type = 0; type < own.size(); ++type) {
    if (counts[type] == 0)
      continue;
    auto works = [&](int64_t memory) {
      std::vector<int64_t> bytes = own;
      bytes[type] = memory;
      return hasPlanOfAllOrType(withMemory(bytes), type);
    };
    if (own[type] >= unlimitedBytes || !works(unlimitedBytes))
      continue;
    int64_t least = findLeast(own[type], unlimitedBytes, works);
    remedies.push_back("with " + formatMissing(least - own[type]) +
                       " more memory on each '" + cluster.types[type].name +
                       "'");
  }
  if (remedies.size() == before)
    addMemoryOfSeveral();
}

/// From no limits at all, one type after the other to the least it can have.
void RemedySearch::addMemoryOfSeveral() {
  std::vector<int64_t> bytes;
  for (const DeviceType &type : cluster.types)
    bytes.push_back(std::max(type.memory, unlimitedBytes));
  if (!hasPlanOfAll(withMemory(bytes)))
    return;
  std::string text;
  for (size_t type = 0; type < bytes.size(); ++type) {
    int64_t own = cluster.types[type].memory;
    auto works = [&](int64_t memory) {
      bytes[type] = memory;
      return hasPlanOfAll(withMemory(bytes));
    };
    bytes[type] = findLeast(own - 1, bytes[type], works);
    if (bytes[type] > own)
      text += (text.empty() ? "with " : " and ") +
              formatMissing(bytes[type] - own) + " more on each '" +
              cluster.types[type].name + "'";
  }
  remedies.push_back(text);
}

void RemedySearch::addDevices() {
  for (size_t type = 0; type < counts.size(); ++type) {
    if (counts[type] == 0)
      continue;
    auto works = [&](int64_t more) {
      std::vector<int64_t> other = counts;
      other[type] += more;
      auto view = resizeCluster(cluster, other);
      return view && hasPlanOfAll(*view);
    };
    int64_t most = 4 * counts[type];
    if (!works(most))
      continue;
    int64_t least = findLeast(0, most, works);
    remedies.push_back("with " + std::to_string(least) + " more of '" +
                       cluster.types[type].name + "'");
  }
}

std::vector<std::string> RemedySearch::run() {
  addChoices();
  addMemory();
  addDevices();
  return remedies;
}

std::vector<std::string> poplar::findRemedies(const ClusterView &cluster,
                                              const ModelFacts &model,
                                              const BatchPolicy &policy,
                                              const PlanChoices &choices) {
  return RemedySearch(cluster, model, policy, choices).run();
}

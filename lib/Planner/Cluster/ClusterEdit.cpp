//===- ClusterEdit.cpp - Clusters of fewer or other devices ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/ClusterEdit.h"

#include <algorithm>

using namespace poplar;

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

bool poplar::areAlike(const ClusterView &cluster, int a, int b) {
  const DeviceType &one = cluster.types[a], &other = cluster.types[b];
  if (one.target != other.target || one.memory != other.memory ||
      one.precision != other.precision || one.recompute != other.recompute ||
      one.isRecomputeFixed != other.isRecomputeFixed ||
      one.threads != other.threads || one.flops != other.flops ||
      one.bandwidth != other.bandwidth || one.power != other.power)
    return false;
  auto list = [&](int type) {
    std::vector<const DeviceProfile *> profiles;
    for (const DeviceProfile &profile : cluster.profiles)
      if (profile.type == type)
        profiles.push_back(&profile);
    return profiles;
  };
  auto isSame = [](const DeviceProfile *p, const DeviceProfile *q) {
    return p->stage == q->stage && p->microBatches == q->microBatches &&
           p->seconds == q->seconds && p->maxMicroBatch == q->maxMicroBatch &&
           p->memory.has_value() == q->memory.has_value() &&
           (!p->memory || (p->memory->fixed == q->memory->fixed &&
                           p->memory->perSample == q->memory->perSample)) &&
           p->optimizerSeconds == q->optimizerSeconds &&
           p->precision == q->precision && p->recompute == q->recompute &&
           p->isEstimate == q->isEstimate && p->model == q->model;
  };
  auto ofOne = list(a), ofOther = list(b);
  return std::equal(ofOne.begin(), ofOne.end(), ofOther.begin(), ofOther.end(),
                    isSame);
}

void poplar::mergeAlikeTypes(ClusterView &cluster) {
  std::vector<int> counts = cluster.countRanks();
  std::vector<int> first(cluster.types.size());
  for (size_t type = 0; type < first.size(); ++type) {
    first[type] = static_cast<int>(type);
    for (size_t other = 0; other < type; ++other)
      if (counts[type] && counts[other] &&
          areAlike(cluster, static_cast<int>(other), static_cast<int>(type))) {
        first[type] = first[other];
        break;
      }
  }
  for (ClusterRank &rank : cluster.ranks)
    rank.type = first[rank.type];
}

std::optional<ClusterView> poplar::takeRanks(const ClusterView &cluster,
                                             const std::vector<int64_t> &copies,
                                             std::vector<int> *kept) {
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

std::optional<ClusterView>
poplar::resizeCluster(const ClusterView &cluster,
                      const std::vector<int64_t> &counts,
                      std::vector<int> *kept, const std::vector<int> &first) {
  // Ranks by type, those to keep longest in front.
  std::vector<std::vector<int>> devices(cluster.types.size());
  for (size_t rank = 0; rank < cluster.ranks.size(); ++rank)
    devices[cluster.ranks[rank].type].push_back(static_cast<int>(rank));
  std::vector<double> best = getBestLinks(cluster);
  std::vector<bool> isFirst(cluster.ranks.size());
  for (int rank : first)
    isFirst[rank] = true;
  std::vector<int64_t> copies(cluster.ranks.size());
  for (size_t type = 0; type < devices.size(); ++type) {
    std::vector<int> &ranks = devices[type];
    auto count = static_cast<size_t>(counts[type]);
    if (count > 0 && ranks.empty())
      return std::nullopt;
    if (count > ranks.size())
      copies[ranks.back()] = static_cast<int64_t>(count - ranks.size());
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      if (isFirst[a] != isFirst[b])
        return isFirst[a] > isFirst[b];
      return best[cluster.ranks[a].node] > best[cluster.ranks[b].node];
    });
    for (size_t i = 0; i < std::min(count, ranks.size()); ++i)
      ++copies[ranks[i]];
  }
  return takeRanks(cluster, copies, kept);
}

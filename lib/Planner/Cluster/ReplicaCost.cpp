//===- ReplicaCost.cpp - Collectives inside and across shard groups -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include <algorithm>
#include <set>

using namespace poplar;

using Collective = SimulationProblem::Collective;

/// All that a CollectiveCost of ranks depends on.
static std::vector<double> getKey(const ClusterView &cluster,
                                  const std::vector<ClusterRank> &ranks) {
  std::vector<double> key;
  std::vector<int> nodes;
  // Ranks of a node and type that follow one another are counted.
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    auto [node, type] = ranks[rank];
    bool isNode = nodes.empty() || nodes.back() != node;
    if (isNode)
      nodes.push_back(node);
    if (isNode || type != ranks[rank - 1].type)
      key.insert(key.end(), {double(nodes.size()), double(type), 0});
    ++key.back();
  }
  // Large clusters have no links of their own.
  if (cluster.links.empty())
    return key;
  for (int from : nodes)
    for (int to : nodes)
      if (std::optional<LinkSpeed> link = cluster.findLink(from, to))
        key.insert(key.end(), {link->latency, link->bandwidth, link->overhead});
  return key;
}

/// Whether the ranks at a place of each group are on the same nodes as those
/// one place before, and of the same types.
static bool isAsBefore(const std::vector<ClusterRank> &ranks, size_t size,
                       size_t place) {
  for (size_t rank = place; rank < ranks.size(); rank += size)
    if (ranks[rank].node != ranks[rank - 1].node ||
        ranks[rank].type != ranks[rank - 1].type)
      return false;
  return true;
}

/// Whether members change node and type where those of `before`, as many, do.
static bool areAlike(const std::vector<ClusterRank> &members,
                     const std::vector<ClusterRank> &before) {
  if (before.size() != members.size())
    return false;
  for (size_t i = 0; i < members.size(); ++i)
    if (members[i].type != before[i].type ||
        (i > 0 && (members[i].node == members[i - 1].node) !=
                      (before[i].node == before[i - 1].node)))
      return false;
  return true;
}

namespace {
/// Members of collectives that cost differently.
class DistinctMembers {
public:
  explicit DistinctMembers(const ClusterView &cluster) : cluster(cluster) {}

  /// Whether there were none like these that share their links like these.
  bool insert(const std::vector<ClusterRank> &members, double sharers = 1) {
    // Most are as those before them.
    if (cluster.links.empty() && sharers == sharersBefore &&
        areAlike(members, before))
      return false;
    before = members;
    sharersBefore = sharers;
    std::vector<double> key = getKey(cluster, members);
    key.push_back(sharers);
    return known.insert(std::move(key)).second;
  }

private:
  const ClusterView &cluster;
  std::set<std::vector<double>> known;
  std::vector<ClusterRank> before;
  double sharersBefore = 0;
};
} // namespace

ReplicaCost::ReplicaCost(const ClusterView &cluster,
                         const std::vector<ClusterRank> &ranks,
                         int64_t replicas)
    : replicas(replicas) {
  size_t size = ranks.size() / static_cast<size_t>(replicas);
  std::vector<ClusterRank> members;
  DistinctMembers distinctGroups(cluster);
  for (size_t first = 0; first < ranks.size(); first += size) {
    members.assign(ranks.begin() + first, ranks.begin() + first + size);
    if (distinctGroups.insert(members))
      groups.emplace_back(cluster, members);
  }
  // Ranks of a node follow one another.
  std::vector<size_t> ranksOn(cluster.nodes.size());
  for (const ClusterRank &rank : ranks)
    ++ranksOn[rank.node];
  // The first of places that are alike has the largest of equal parts.
  DistinctMembers distinctPeers(cluster);
  for (size_t place = 0; place < size; ++place) {
    if (place > 0 && isAsBefore(ranks, size, place))
      continue;
    members.clear();
    size_t sharers = 1;
    for (size_t rank = place; rank < ranks.size(); rank += size) {
      members.push_back(ranks[rank]);
      sharers = std::max(sharers, std::min(ranksOn[ranks[rank].node], size));
    }
    if (distinctPeers.insert(members, double(sharers)))
      peers.push_back(
          {CollectiveCost(cluster, members), place, double(sharers)});
  }
}

/// What takes until both are done.
static void join(Collective &all, const Collective &other) {
  all.latency = std::max(all.latency, other.latency);
  all.overhead = std::max(all.overhead, other.overhead);
  for (size_t i = 0; i < all.uses.size(); ++i)
    all.uses[i].seconds = std::max(all.uses[i].seconds, other.uses[i].seconds);
}

/// A reduce-scatter or an all-gather.
static Collective collect(const CollectiveCost &cost, const std::string &name,
                          const std::vector<int64_t> &bounds,
                          double elementBytes, bool reduces) {
  return reduces ? cost.reduceScatter(name, bounds, elementBytes)
                 : cost.allGather(name, bounds, elementBytes);
}

Collective ReplicaCost::collectInGroups(const std::string &name,
                                        const std::vector<int64_t> &bounds,
                                        double elementBytes,
                                        bool reduces) const {
  Collective all = collect(groups.front(), name, bounds, elementBytes, reduces);
  for (size_t i = 1; i < groups.size(); ++i)
    join(all, collect(groups[i], name, bounds, elementBytes, reduces));
  return all;
}

Collective ReplicaCost::allGather(std::string name,
                                  const std::vector<int64_t> &bounds,
                                  double elementBytes) const {
  return collectInGroups(name, bounds, elementBytes, false);
}

Collective ReplicaCost::reduceScatter(std::string name,
                                      const std::vector<int64_t> &bounds,
                                      double elementBytes) const {
  return collectInGroups(name, bounds, elementBytes, true);
}

Collective ReplicaCost::sumShards(const std::string &name,
                                  const std::vector<int64_t> &bounds,
                                  double elementBytes, bool reduces) const {
  std::optional<Collective> all;
  for (const Peers &at : peers) {
    int64_t own = bounds[at.place + 1] - bounds[at.place];
    std::vector<int64_t> parts;
    for (int64_t i = 0; i <= replicas; ++i)
      parts.push_back(own * i / replicas);
    Collective sum = collect(at.cost, name, parts, elementBytes, reduces);
    for (Collective::Use &use : sum.uses)
      if (use.port == CollectiveCost::NodeOut ||
          use.port == CollectiveCost::NodeIn)
        use.seconds *= at.sharers;
    if (all)
      join(*all, sum);
    else
      all = std::move(sum);
  }
  return *all;
}

Collective ReplicaCost::reduceShards(std::string name,
                                     const std::vector<int64_t> &bounds,
                                     double elementBytes) const {
  return sumShards(name, bounds, elementBytes, true);
}

Collective ReplicaCost::gatherShards(std::string name,
                                     const std::vector<int64_t> &bounds,
                                     double elementBytes) const {
  return sumShards(name, bounds, elementBytes, false);
}

std::vector<int64_t> ReplicaCost::list(const std::vector<ClusterRank> &ranks) {
  size_t count = ranks.size();
  // Whether the ranks [first, end) are in one node, or all of several.
  auto isGroup = [&](size_t first, size_t end) {
    if (ranks[first].node == ranks[end - 1].node)
      return true;
    return (first == 0 || ranks[first - 1].node != ranks[first].node) &&
           (end == count || ranks[end - 1].node != ranks[end].node);
  };
  std::vector<int64_t> found;
  for (size_t replicas = 2; 2 * replicas <= count; ++replicas) {
    size_t size = count / replicas;
    bool isGrouped = count % replicas == 0;
    for (size_t first = 0; isGrouped && first < count; first += size)
      isGrouped = isGroup(first, first + size);
    if (isGrouped)
      found.push_back(static_cast<int64_t>(replicas));
  }
  return found;
}

//===- Sites.cpp - Which nodes are close to each other --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster/Sites.h"
#include "Cluster/NodeSets.h"
#include "Never.h"
#include <algorithm>
#include <limits>
#include <set>

using namespace poplar;

/// How much slower links between sites are than inside.
static constexpr double slower = 4;

namespace {
/// A step between two nodes of the minimum spanning tree.
struct Step {
  double seconds;
  int from, to;
  bool operator<(const Step &other) const { return seconds < other.seconds; }
};
} // namespace

static double getSeconds(const ClusterView &cluster, int from, int to,
                         double bytes) {
  double seconds = 0;
  for (std::optional<LinkSpeed> link :
       {cluster.findLink(from, to), cluster.findLink(to, from)})
    seconds = std::max(seconds,
                       link ? link->latency + bytes / link->bandwidth : never);
  return seconds;
}

/// A node without a link of its own to another; none if all have one.
static std::optional<int> findPlainNode(const ClusterView &cluster) {
  std::vector<bool> isLinked(cluster.nodes.size());
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second)
      isLinked[ends.first] = isLinked[ends.second] = true;
  auto found = std::find(isLinked.begin(), isLinked.end(), false);
  if (found == isLinked.end())
    return std::nullopt;
  return static_cast<int>(found - isLinked.begin());
}

/// The steps of the minimum spanning tree (Prim): nodes that reach each other
/// in steps of some time do so along it.
static std::vector<Step> findTree(const ClusterView &cluster, double bytes) {
  int nodes = static_cast<int>(cluster.nodes.size());
  std::vector<Step> reach(nodes, {never, -1, -1}), tree;
  std::vector<bool> isIn(nodes);
  for (int last = 0, i = 1; i < nodes; ++i) {
    isIn[last] = true;
    int next = -1;
    for (int node = 0; node < nodes; ++node) {
      if (isIn[node])
        continue;
      Step step{getSeconds(cluster, last, node, bytes), last, node};
      if (reach[node].from < 0 || step < reach[node])
        reach[node] = step;
      if (next < 0 || reach[node] < reach[next])
        next = node;
    }
    tree.push_back(reach[next]);
    last = next;
  }
  return tree;
}

/// The same where the default link joins `plain` to every other node (Kruskal):
/// other links count only where they are faster.
static std::vector<Step> findTreeAround(int plain, const ClusterView &cluster,
                                        double bytes) {
  auto nodes = static_cast<int>(cluster.nodes.size());
  int other = plain == 0 ? nodes - 1 : 0;
  double byDefault = getSeconds(cluster, plain, other, bytes);
  std::vector<Step> steps, tree;
  for (const auto &[ends, link] : cluster.links)
    if (ends.first != ends.second)
      steps.push_back({getSeconds(cluster, ends.first, ends.second, bytes),
                       ends.first, ends.second});
  std::sort(steps.begin(), steps.end());
  NodeSets sets(cluster.nodes.size());
  auto join = [&](Step step) {
    if (sets.find(step.from) == sets.find(step.to))
      return;
    sets.join(step.from, step.to);
    tree.push_back(step);
  };
  for (Step step : steps)
    if (step.seconds < byDefault)
      join(step);
  for (int node = 0; node < nodes; ++node)
    join({byDefault, plain, node});
  return tree;
}

/// Steps ascend.
static std::vector<Step> findSteps(const ClusterView &cluster, double bytes) {
  std::optional<int> plain = findPlainNode(cluster);
  std::vector<Step> tree =
      plain ? findTreeAround(*plain, cluster, bytes) : findTree(cluster, bytes);
  std::sort(tree.begin(), tree.end());
  return tree;
}

/// The sites that the first `count` steps make.
static std::vector<int> join(size_t nodes, const std::vector<Step> &tree,
                             size_t count) {
  NodeSets sets(nodes);
  for (size_t i = 0; i < count; ++i)
    sets.join(tree[i].from, tree[i].to);
  // The first node of a site stands for it: numbers ascend.
  std::vector<int> sites(nodes);
  int next = 0;
  for (size_t node = 0; node < nodes; ++node) {
    int first = sets.find(static_cast<int>(node));
    sites[node] = first == static_cast<int>(node) ? next++ : sites[first];
  }
  return sites;
}

static size_t countKinds(const ClusterView &cluster,
                         const std::vector<int> &sites) {
  std::set<std::pair<int, int>> kinds;
  for (const ClusterRank &rank : cluster.ranks)
    kinds.insert({rank.type, sites[rank.node]});
  return kinds.size();
}

std::vector<std::vector<int>>
poplar::findSites(const ClusterView &cluster, double bytes, size_t mostKinds) {
  size_t nodes = cluster.nodes.size();
  std::vector<Step> tree = findSteps(cluster, bytes);
  std::vector<std::vector<int>> ways = {std::vector<int>(nodes, 0)};
  double longest = 0;
  for (const ClusterNode &node : cluster.nodes)
    if (node.numRanks > 1) {
      int index = static_cast<int>(&node - cluster.nodes.data());
      longest = std::max(longest, getSeconds(cluster, index, index, bytes));
    }
  for (size_t count = 0; count < tree.size(); ++count) {
    // Nodes of one device have nothing that is closer.
    if (longest > 0 && tree[count].seconds >= slower * longest) {
      std::vector<int> sites = join(nodes, tree, count);
      if (countKinds(cluster, sites) <= mostKinds)
        ways.push_back(std::move(sites));
    }
    longest = std::max(longest, tree[count].seconds);
  }
  return ways;
}

//===- Sites.cpp - Which nodes are close to each other --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Cluster/Sites.h"
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

/// The steps of the minimum spanning tree (Prim), ascending: nodes that reach
/// each other in steps of some time do so along it.
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
  std::sort(tree.begin(), tree.end());
  return tree;
}

/// The sites that the first `count` steps make.
static std::vector<int> join(size_t nodes, const std::vector<Step> &tree,
                             size_t count) {
  std::vector<int> sites(nodes);
  for (size_t node = 0; node < nodes; ++node)
    sites[node] = static_cast<int>(node);
  for (size_t i = 0; i < count; ++i) {
    auto [low, high] = std::minmax(sites[tree[i].from], sites[tree[i].to]);
    std::replace(sites.begin(), sites.end(), int(high), int(low));
  }
  std::set<int> firsts(sites.begin(), sites.end());
  for (int &site : sites)
    site = static_cast<int>(std::distance(firsts.begin(), firsts.find(site)));
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
  std::vector<Step> tree = findTree(cluster, bytes);
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

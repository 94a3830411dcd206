//===- MetamorphicClusters.cpp - Clusters that are better or alike --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MetamorphicClusters.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <sstream>

using namespace poplar;
using namespace poplar::test;

/// The same with other nodes: of each, which node it was, and its types.
static ClusterView
rebuild(const ClusterView &cluster,
        const std::vector<std::pair<int, std::vector<int>>> &nodes) {
  ClusterView changed = cluster;
  changed.nodes.clear();
  changed.ranks.clear();
  changed.links.clear();
  for (size_t node = 0; node < nodes.size(); ++node) {
    const auto &[was, types] = nodes[node];
    changed.nodes.push_back({"n" + std::to_string(node),
                             static_cast<int>(changed.ranks.size()),
                             static_cast<int>(types.size())});
    for (int type : types)
      changed.ranks.push_back({static_cast<int>(node), type});
    for (size_t other = 0; other < nodes.size(); ++other) {
      auto link = cluster.links.find({was, nodes[other].first});
      // A copy of a node is as far from it as its neighbours are, not inside.
      if (link != cluster.links.end() &&
          (node == other) == (was == nodes[other].first))
        changed.links[{static_cast<int>(node), static_cast<int>(other)}] =
            link->second;
    }
  }
  return changed;
}

static std::vector<std::pair<int, std::vector<int>>>
listNodes(const ClusterView &cluster) {
  std::vector<std::pair<int, std::vector<int>>> nodes;
  for (size_t node = 0; node < cluster.nodes.size(); ++node) {
    std::vector<int> types;
    for (int i = 0; i < cluster.nodes[node].numRanks; ++i)
      types.push_back(cluster.ranks[cluster.nodes[node].firstRank + i].type);
    nodes.emplace_back(static_cast<int>(node), types);
  }
  return nodes;
}

static std::optional<ClusterView> permuteNodes(const ClusterView &cluster,
                                               std::mt19937 &random) {
  auto nodes = listNodes(cluster);
  std::shuffle(nodes.begin(), nodes.end(), random);
  return rebuild(cluster, nodes);
}

static std::optional<ClusterView> permuteTypes(const ClusterView &cluster,
                                               std::mt19937 &random) {
  std::vector<int> numbers(cluster.types.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), random);
  auto nodes = listNodes(cluster);
  for (auto &[was, types] : nodes)
    for (int &type : types)
      type = numbers[type];
  ClusterView changed = rebuild(cluster, nodes);
  for (size_t type = 0; type < numbers.size(); ++type)
    changed.types[numbers[type]] = cluster.types[type];
  for (DeviceProfile &profile : changed.profiles)
    profile.type = numbers[profile.type];
  std::shuffle(changed.profiles.begin(), changed.profiles.end(), random);
  return changed;
}

static std::optional<ClusterView> permuteDevices(const ClusterView &cluster,
                                                 std::mt19937 &random) {
  auto nodes = listNodes(cluster);
  for (auto &[was, types] : nodes)
    std::shuffle(types.begin(), types.end(), random);
  return rebuild(cluster, nodes);
}

/// Every second device of a type is of another one with the same profiles.
static std::optional<ClusterView> splitType(const ClusterView &cluster,
                                            std::mt19937 &random) {
  auto split = static_cast<int>(random() % cluster.types.size());
  ClusterView changed = cluster;
  auto half = static_cast<int>(changed.types.size());
  changed.types.push_back(cluster.types[split]);
  changed.types.back().name += "-half";
  for (const DeviceProfile &profile : cluster.profiles)
    if (profile.type == split) {
      changed.profiles.push_back(profile);
      changed.profiles.back().type = half;
    }
  int seen = 0;
  for (ClusterRank &rank : changed.ranks)
    if (rank.type == split && seen++ % 2)
      rank.type = half;
  if (seen < 2)
    return std::nullopt;
  return changed;
}

static std::optional<ClusterView> duplicate(const ClusterView &cluster,
                                            std::mt19937 &random) {
  auto nodes = listNodes(cluster), copies = nodes;
  nodes.insert(nodes.end(), copies.begin(), copies.end());
  return rebuild(cluster, nodes);
}

static std::optional<ClusterView> addUselessNode(const ClusterView &cluster,
                                                 std::mt19937 &random) {
  ClusterView changed = cluster;
  auto slow = static_cast<int>(changed.types.size());
  changed.types.push_back(cluster.types.front());
  changed.types.back().name = "slow";
  changed.types.back().memory /= 2;
  for (const DeviceProfile &profile : cluster.profiles)
    if (profile.type == 0) {
      changed.profiles.push_back(profile);
      changed.profiles.back().type = slow;
      for (double &seconds : changed.profiles.back().seconds)
        seconds *= 50;
    }
  auto nodes = listNodes(changed);
  auto added = static_cast<int>(nodes.size());
  auto place = static_cast<ptrdiff_t>(random() % (nodes.size() + 1));
  nodes.insert(nodes.begin() + place, {added, {slow}});
  for (int node = 0; node < added; ++node) {
    LinkSpeed link = {0.5, 1e6, 0};
    changed.links[{node, added}] = changed.links[{added, node}] = link;
  }
  return rebuild(changed, nodes);
}

static std::optional<ClusterView> speedUp(const ClusterView &cluster,
                                          std::mt19937 &random) {
  ClusterView changed = cluster;
  auto type = static_cast<int>(random() % cluster.types.size());
  double factor = 0.3 + 0.6 * std::uniform_real_distribution<>(0, 1)(random);
  for (DeviceProfile &profile : changed.profiles)
    if (profile.type == type)
      for (double &seconds : profile.seconds)
        seconds *= factor;
  return changed;
}

static std::optional<ClusterView> addMemory(const ClusterView &cluster,
                                            std::mt19937 &random) {
  ClusterView changed = cluster;
  auto &type = changed.types[random() % cluster.types.size()];
  type.memory +=
      type.memory / 20 + static_cast<int64_t>(random() % type.memory);
  return changed;
}

static std::optional<ClusterView> improveLink(const ClusterView &cluster,
                                              std::mt19937 &random) {
  ClusterView changed = cluster;
  auto improve = [&](LinkSpeed &link) {
    link.bandwidth *= 3;
    link.latency /= 2;
    link.overhead /= 2;
  };
  size_t which = random() % (changed.links.size() + 2);
  if (which == 0)
    improve(*changed.defaultBetween);
  else if (which == 1)
    improve(*changed.defaultInside);
  else
    improve(std::next(changed.links.begin(), ptrdiff_t(which) - 2)->second);
  return changed;
}

const std::vector<ClusterChange> &test::getClusterChanges() {
  static const std::vector<ClusterChange> changes = {
      {"permute nodes", true, 0.01, permuteNodes},
      {"permute types", true, 0.01, permuteTypes},
      {"permute the devices of nodes", true, 0.04, permuteDevices},
      {"split a type", false, 0.01, splitType},
      {"duplicate the cluster", false, 0.01, duplicate},
      {"add a useless node", false, 0.01, addUselessNode},
      {"a faster type", false, 0.01, speedUp},
      {"more memory", false, 0.01, addMemory},
      {"a better link", false, 0.01, improveLink},
  };
  return changes;
}

/// As small as they are, random models have shards of a few elements, whose
/// rounding matters more than what is tested.
static void scaleModel(RandomCluster &made, int64_t factor) {
  ModelFacts &model = made.model;
  for (int64_t *count :
       {&model.parameters.trained, &model.largestBucket, &model.firstBucket,
        &model.lastBucket, &model.gatheredForward.elements,
        &model.gatheredBackward.elements, &model.reduced.elements})
    *count *= factor;
  for (DeviceType &type : made.cluster.types)
    type.memory *= factor;
  for (DeviceProfile &profile : made.cluster.profiles) {
    profile.memory->fixed *= factor;
    profile.memory->perSample *= factor;
  }
}

RandomCluster test::makeUnevenCluster(std::mt19937 &random, int mostNodes,
                                      int mostDevices) {
  auto real = [&] { return std::uniform_real_distribution<>(0, 1)(random); };
  constexpr int64_t scale = 100000;
  RandomCluster made = makeRandomCluster(random);
  scaleModel(made, scale);
  ClusterView &cluster = made.cluster;
  auto types = static_cast<int>(cluster.types.size());
  cluster.nodes.clear();
  cluster.ranks.clear();
  auto nodes = 1 + static_cast<int>(random() % mostNodes);
  bool isPlain = random() % 2; // one type a node, as most clusters are
  for (int node = 0; node < nodes; ++node) {
    auto first = static_cast<int>(cluster.ranks.size());
    auto devices = 1 + static_cast<int>(random() % mostDevices);
    auto type = static_cast<int>(random() % types);
    for (int i = 0; i < devices; ++i)
      cluster.ranks.push_back(
          {node, isPlain ? type : static_cast<int>(random() % types)});
    cluster.nodes.push_back({"n" + std::to_string(node), first, devices});
  }
  // From what costs nothing to what takes longer than to compute.
  auto makeLink = [&](double bandwidth) {
    bandwidth *= double(scale) * std::pow(10.0, 2 * real());
    return LinkSpeed{0.01 * real(), bandwidth,
                     random() % 2 ? 0.1 * real() / bandwidth : 0};
  };
  cluster.defaultInside = makeLink(20000);
  cluster.defaultBetween = makeLink(1000);
  double density = real();
  for (int node = 0; node < nodes; ++node)
    for (int other = node; other < nodes; ++other)
      if (real() < density)
        cluster.links[{node, other}] = cluster.links[{other, node}] =
            makeLink(node == other ? 20000 : 1000);
  return made;
}

std::string test::describeCluster(const ClusterView &cluster) {
  std::ostringstream text;
  for (const ClusterNode &node : cluster.nodes) {
    text << node.name << ":";
    for (int i = 0; i < node.numRanks; ++i)
      text << " " << cluster.types[cluster.ranks[node.firstRank + i].type].name;
    text << "; ";
  }
  for (const auto &[ends, link] : cluster.links)
    text << "\n  " << ends.first << "-" << ends.second << " " << link.latency
         << " s " << link.bandwidth << " B/s";
  return text.str();
}

int test::countClusters(int few) {
  const char *many = std::getenv("POPLAR_METAMORPHIC_CLUSTERS");
  return many ? std::atoi(many) : few;
}

unsigned test::chooseSeed(unsigned usual) {
  const char *seed = std::getenv("POPLAR_METAMORPHIC_SEED");
  return seed ? usual + 1000 * static_cast<unsigned>(std::atoi(seed)) : usual;
}

bool test::isChosen(int cluster) {
  const char *only = std::getenv("POPLAR_METAMORPHIC_ONLY");
  return !only || std::atoi(only) == cluster;
}

//===- CollectiveCost.cpp - What a collective needs of links --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "Poplar/Planner/Cluster/CollectiveLatency.h"
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

using namespace poplar;

CollectiveCost::CollectiveCost(const ClusterView &cluster,
                               const std::vector<ClusterRank> &ranks) {
  std::vector<CollectiveLibrary> libraries; // by type
  for (const DeviceType &type : cluster.types)
    libraries.push_back(getCollectiveLibrary(type.target));
  // Nodes in use are numbered in the order of their first ranks. Neighbours are
  // mostly of one node and type.
  std::map<int, int> numbers;
  std::vector<int> indices;
  std::map<std::pair<int, CollectiveLibrary>, CollectiveNodes> byLibrary;
  int number = 0;
  CollectiveNodes *members = nullptr;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    auto [type, node] = std::pair(ranks[rank].type, ranks[rank].node);
    if (rank == 0 || node != ranks[rank - 1].node ||
        type != ranks[rank - 1].type) {
      auto [entry, isNew] =
          numbers.try_emplace(node, static_cast<int>(nodes.size()));
      if (isNew) {
        indices.push_back(node);
        nodes.emplace_back();
      }
      number = entry->second;
      CollectiveLibrary library = libraries[type];
      members =
          &byLibrary
               .try_emplace({node, library}, CollectiveNodes{library, 1, 0})
               .first->second;
    }
    nodes[number].ranks.push_back(static_cast<int>(rank));
    ++members->ranksPerNode;
  }
  double insideLatency = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].ranks.size() < 2)
      continue;
    LinkSpeed link = *cluster.findLink(indices[i], indices[i]);
    nodes[i].insideBandwidth = link.bandwidth;
    insideLatency = std::max(insideLatency, link.latency);
    overhead = std::max(overhead, link.overhead);
  }
  double betweenLatency = addLinks(cluster, indices);
  std::vector<CollectiveNodes> all;
  for (const auto &[key, group] : byLibrary)
    all.push_back(group);
  latency = CollectiveSteps::count(all, static_cast<int64_t>(nodes.size()))
                .getSeconds(insideLatency, betweenLatency);
}

/// Links between nodes, in time proportional to the nodes and to the links that
/// are not the default one. Returns the longest latency of any.
double CollectiveCost::addLinks(const ClusterView &cluster,
                                const std::vector<int> &indices) {
  double latency = 0;
  std::map<int, int> numbers;
  for (size_t i = 0; !cluster.links.empty() && i < indices.size(); ++i)
    numbers[indices[i]] = static_cast<int>(i);
  if (cluster.defaultBetween)
    defaultInverse = 1 / cluster.defaultBetween->bandwidth;
  double others = double(nodes.size()) - 1;
  for (Node &node : nodes)
    node.outInverse = node.inInverse = others * defaultInverse;
  for (const auto &[ends, speed] : cluster.links) {
    auto from = numbers.find(ends.first), to = numbers.find(ends.second);
    if (from == numbers.end() || to == numbers.end() || from == to)
      continue;
    double extra = 1 / speed.bandwidth - defaultInverse;
    ownLinks.push_back({from->second, to->second, extra});
    nodes[from->second].outInverse += extra;
    nodes[to->second].inInverse += extra;
    latency = std::max(latency, speed.latency);
    overhead = std::max(overhead, speed.overhead);
  }
  size_t pairs = nodes.size() * (nodes.size() - 1);
  if (cluster.defaultBetween && ownLinks.size() < pairs) {
    latency = std::max(latency, cluster.defaultBetween->latency);
    overhead = std::max(overhead, cluster.defaultBetween->overhead);
  }
  return latency;
}

/// A device is the root of the trees of its own slice and of those that it
/// leads in its node, and a leaf of all others.
std::pair<double, double>
CollectiveCost::getDeviceSeconds(const std::vector<int64_t> &bounds) const {
  auto length = [&](size_t rank) {
    return double(bounds[rank + 1] - bounds[rank]);
  };
  double all = double(bounds.back());
  // By the number of ranks in a node: elements of the slices that are led by
  // the first, second, ... of its ranks (Topology::getLeader).
  std::map<size_t, std::vector<double>> ledBy;
  double root = 0, leaf = 0;
  std::vector<double> rooted;
  for (const Node &node : nodes) {
    size_t size = node.ranks.size();
    if (size < 2)
      continue;
    std::vector<double> &led = ledBy[size];
    if (led.empty()) {
      led.resize(size);
      for (size_t slice = 0; slice + 1 < bounds.size(); ++slice)
        led[slice % size] += length(slice);
    }
    rooted.assign(led.begin(), led.end());
    for (int slice : node.ranks)
      rooted[slice % size] -= length(slice);
    for (size_t i = 0; i < size; ++i) {
      rooted[i] += length(node.ranks[i]);
      root =
          std::max(root, rooted[i] * double(size - 1) / node.insideBandwidth);
      leaf = std::max(leaf, (all - rooted[i]) / node.insideBandwidth);
    }
  }
  return {root, leaf};
}

std::pair<double, double>
CollectiveCost::getNodeSeconds(const std::vector<int64_t> &bounds,
                               bool rootsReceive) const {
  double all = double(bounds.back()), root = 0, leaf = 0;
  std::vector<double> slices, extra(nodes.size());
  for (const Node &node : nodes) {
    double slice = 0;
    for (int rank : node.ranks)
      slice += double(bounds[rank + 1] - bounds[rank]);
    slices.push_back(slice);
    root = std::max(root,
                    slice * (rootsReceive ? node.inInverse : node.outInverse));
  }
  for (const OwnLink &link : ownLinks) {
    auto [leafNode, rootNode] = rootsReceive ? std::pair(link.from, link.to)
                                             : std::pair(link.to, link.from);
    extra[leafNode] += slices[rootNode] * link.extraInverse;
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    leaf = std::max(leaf, (all - slices[i]) * defaultInverse + extra[i]);
  return {root, leaf};
}

double CollectiveCost::getElements(const std::vector<int64_t> &bounds) const {
  double most = 0;
  for (const Node &node : nodes) {
    double copies = double(nodes.size() - 1 + node.ranks.size() - 1);
    for (int rank : node.ranks) {
      double own = double(bounds[rank + 1] - bounds[rank]);
      most = std::max(most, double(bounds.back()) - own + own * copies);
    }
  }
  return most;
}

SimulationProblem::Collective CollectiveCost::makeCollective(
    std::string name, const std::vector<int64_t> &bounds,
    std::pair<double, double> deviceSeconds, double elementBytes,
    double insideBytes, bool reduces) const {
  auto [deviceRoot, deviceLeaf] = deviceSeconds;
  auto [nodeRoot, nodeLeaf] = getNodeSeconds(bounds, reduces);
  if (reduces) {
    std::swap(deviceRoot, deviceLeaf);
    std::swap(nodeRoot, nodeLeaf);
  }
  SimulationProblem::Collective collective;
  collective.name = std::move(name);
  collective.latency = latency;
  if (overhead > 0)
    collective.overhead = getElements(bounds) * elementBytes * overhead;
  collective.uses = {{DeviceOut, deviceRoot * insideBytes},
                     {DeviceIn, deviceLeaf * insideBytes},
                     {NodeOut, nodeRoot * elementBytes},
                     {NodeIn, nodeLeaf * elementBytes}};
  return collective;
}

std::pair<SimulationProblem::Collective, SimulationProblem::Collective>
CollectiveCost::gatherAndReduce(const std::vector<int64_t> &bounds,
                                double gatherBytes, double reduceBytes,
                                double reduceInsideBytes) const {
  std::pair<double, double> seconds = getDeviceSeconds(bounds);
  return {makeCollective("", bounds, seconds, gatherBytes, gatherBytes, false),
          makeCollective("", bounds, seconds, reduceBytes, reduceInsideBytes,
                         true)};
}

SimulationProblem::Collective CollectiveCost::exchange(std::string name,
                                                       int64_t bytes) const {
  std::vector<int64_t> bounds = {0};
  for (const Node &node : nodes)
    for (size_t i = 0; i < node.ranks.size(); ++i)
      bounds.push_back(bounds.back() + bytes);
  return allGather(std::move(name), bounds, 1);
}

//===----------------------------------------------------------------------===//
// As functions of what ranks own
//===----------------------------------------------------------------------===//

using Load = CollectiveCost::Load;

static Load makeLoad(double constant, double factor,
                     const std::vector<double> &factors) {
  Load load = {constant, factors};
  for (double &each : load.factors)
    each *= factor;
  return load;
}

/// As getDeviceSeconds().
void CollectiveCost::listDevicePorts(const Ownership &ownership, double inside,
                                     std::vector<Load> &ports) const {
  const auto &[classes, variables, numVariables] = ownership;
  std::map<size_t, std::vector<std::vector<double>>> ledBy;
  std::set<std::tuple<std::vector<size_t>, size_t, double>> known;
  for (const Node &node : nodes) {
    size_t size = node.ranks.size();
    if (size < 2)
      continue;
    std::vector<size_t> own;
    for (int rank : node.ranks)
      own.push_back(classes[rank]);
    // Interchangeable nodes differ if they lead other slices.
    if (!known.insert({own, node.ranks[0] % size, node.insideBandwidth}).second)
      continue;
    auto &led = ledBy[size];
    if (led.empty()) {
      led.resize(size, std::vector<double>(numVariables));
      for (size_t slice = 0; slice < variables.size(); ++slice)
        ++led[slice % size][variables[slice]];
    }
    auto rooted = led;
    for (int slice : node.ranks)
      --rooted[slice % size][variables[slice]];
    for (size_t i = 0; i < size; ++i) {
      ++rooted[i][variables[node.ranks[i]]];
      double inverse = inside / node.insideBandwidth;
      ports.push_back(makeLoad(0, double(size - 1) * inverse, rooted[i]));
      ports.push_back(makeLoad(inverse, -inverse, rooted[i]));
    }
  }
}

/// As getNodeSeconds().
void CollectiveCost::listNodePorts(const Ownership &ownership,
                                   bool rootsReceive,
                                   std::vector<Load> &ports) const {
  const auto &[classes, variables, numVariables] = ownership;
  // The first of interchangeable nodes.
  std::map<std::vector<size_t>, size_t> firsts;
  std::vector<size_t> firstOf;
  std::vector<std::vector<double>> slices;
  for (const Node &node : nodes) {
    std::vector<size_t> own;
    slices.emplace_back(numVariables);
    for (int rank : node.ranks) {
      own.push_back(classes[rank]);
      ++slices.back()[variables[rank]];
    }
    firstOf.push_back(firsts.try_emplace(own, firstOf.size()).first->second);
  }
  // What nodes with links of their own take longer, or less long.
  std::map<size_t, std::vector<double>> extra;
  for (const OwnLink &link : ownLinks) {
    auto [leafNode, rootNode] = rootsReceive ? std::pair(link.from, link.to)
                                             : std::pair(link.to, link.from);
    auto leaf = static_cast<size_t>(leafNode);
    if (firstOf[leaf] != leaf)
      continue;
    std::vector<double> &sum = extra[leaf];
    sum.resize(numVariables);
    for (size_t i = 0; i < numVariables; ++i)
      sum[i] += slices[rootNode][i] * link.extraInverse;
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (firstOf[i] != i)
      continue;
    ports.push_back(makeLoad(
        0, rootsReceive ? nodes[i].inInverse : nodes[i].outInverse, slices[i]));
    Load leaf = makeLoad(defaultInverse, -defaultInverse, slices[i]);
    if (auto found = extra.find(i); found != extra.end())
      for (size_t k = 0; k < numVariables; ++k)
        leaf.factors[k] += found->second[k];
    ports.push_back(std::move(leaf));
  }
}

std::vector<Load> CollectiveCost::listPorts(const Ownership &ownership,
                                            bool reduces, double inside) const {
  std::vector<Load> ports;
  listDevicePorts(ownership, inside, ports);
  listNodePorts(ownership, reduces, ports);
  return ports;
}

std::vector<Load> CollectiveCost::listRanks(const Ownership &ownership) const {
  std::vector<Load> ranks;
  std::set<std::pair<size_t, size_t>> known;
  for (const Node &node : nodes)
    for (int rank : node.ranks) {
      size_t variable = ownership.variables[rank];
      if (!known.insert({variable, node.ranks.size()}).second)
        continue;
      Load load = {1, std::vector<double>(ownership.numVariables)};
      load.factors[variable] =
          double(nodes.size() - 1 + node.ranks.size() - 1) - 1;
      ranks.push_back(std::move(load));
    }
  return ranks;
}

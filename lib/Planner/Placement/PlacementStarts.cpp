//===- PlacementStarts.cpp - Where the search for placements begins -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementStarts.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

using namespace poplar;

namespace {
/// An item and those nearest to it.
struct Cluster {
  /// The sum of distances, not the farthest: among equally wide clusters it
  /// prefers the dense.
  double radius = 0;
  std::vector<int> items;
};
} // namespace

/// `others` is memory for its work.
template <typename Distance>
static Cluster gather(int center, const std::vector<int> &items, int size,
                      const Distance &distance,
                      std::vector<std::pair<double, int>> &others) {
  others.clear();
  for (int item : items)
    others.push_back({item == center ? -1 : distance(center, item), item});
  if (size < static_cast<int>(others.size()))
    std::nth_element(others.begin(), others.begin() + size, others.end());
  std::sort(others.begin(), others.begin() + size);
  Cluster cluster;
  for (int i = 0; i < size; ++i) {
    cluster.radius += std::max(others[i].first, 0.0);
    cluster.items.push_back(others[i].second);
  }
  return cluster;
}

/// Takes clusters of `size` from among `items`, the tightest first, until there
/// are `count`. Each begins with its center. `kinds` are numbers, by item, that
/// are equal for items that are as far as each other from all others.
template <typename Distance>
static std::vector<std::vector<int>>
takeClusters(std::vector<int> items, int size, int count,
             const std::vector<int> &kinds, const Distance &distance) {
  std::vector<std::pair<double, int>> others;
  std::vector<Cluster> around;
  // Items of a kind have clusters of the same radius.
  std::map<int, double> radii;
  for (int item : items) {
    auto [entry, isNew] = radii.try_emplace(kinds[item]);
    if (isNew)
      entry->second = gather(item, items, size, distance, others).radius;
    around.push_back({entry->second, {item}});
  }
  std::vector<std::vector<int>> clusters;
  while (static_cast<int>(clusters.size()) < count) {
    // As items go, clusters only grow: those that are not the tightest by what
    // was known of them need not be gathered anew.
    auto tightest = std::min_element(
        around.begin(), around.end(),
        [](const Cluster &a, const Cluster &b) { return a.radius < b.radius; });
    int center = tightest->items[0];
    Cluster current = gather(center, items, size, distance, others);
    if (current.radius > tightest->radius) {
      for (Cluster &cluster : around)
        if (kinds[cluster.items[0]] == kinds[center])
          cluster.radius = current.radius;
      continue;
    }
    for (int item : current.items)
      items.erase(std::find(items.begin(), items.end(), item));
    around.erase(std::remove_if(around.begin(), around.end(),
                                [&](const Cluster &cluster) {
                                  return std::find(current.items.begin(),
                                                   current.items.end(),
                                                   cluster.items[0]) !=
                                         current.items.end();
                                }),
                 around.end());
    clusters.push_back(std::move(current.items));
  }
  return clusters;
}

/// Reorders a cluster from each device to the nearest of the others.
static void chain(const PlacementCosts &costs, std::vector<int> &cluster) {
  std::sort(cluster.begin(), cluster.end());
  for (size_t i = 1; i < cluster.size(); ++i) {
    const double *cost = costs.pipelineOf(cluster[i - 1]);
    std::swap(cluster[i], *std::min_element(
                              cluster.begin() + i, cluster.end(),
                              [&](int j, int k) { return cost[j] < cost[k]; }));
  }
}

/// By device: the first that is as far from all others as it is.
static std::vector<int> findKinds(const PlacementCosts &costs) {
  std::vector<int> kinds, found;
  auto isAlike = [&](int d, int other) {
    for (auto get :
         {&PlacementCosts::pipelineOf, &PlacementCosts::dataParallelOf}) {
      const double *own = (costs.*get)(d), *its = (costs.*get)(other);
      if (own[other] != its[d])
        return false;
      for (int i = 0; i < costs.devices; ++i)
        if (i != d && i != other && own[i] != its[i])
          return false;
    }
    return true;
  };
  for (int d = 0; d < costs.devices; ++d) {
    auto known = std::find_if(found.begin(), found.end(),
                              [&](int other) { return isAlike(d, other); });
    kinds.push_back(known == found.end() ? d : *known);
    if (known == found.end())
      found.push_back(d);
  }
  return kinds;
}

/// Blocks of stages that chains of `length` devices cover, the last one as long
/// as what is left.
static std::vector<std::vector<int>> buildStart(const PlacementCosts &costs,
                                                const std::vector<int> &kinds,
                                                int stages, int pipelines,
                                                int length, bool close) {
  std::vector<int> devices(costs.devices);
  std::iota(devices.begin(), devices.end(), 0);
  std::vector<std::vector<int>> groups;
  while (static_cast<int>(groups.size()) < stages) {
    int rows = std::min<int>(length, stages - groups.size());
    // All close chains are needed to choose from, but only the first tight
    // ones.
    int count = close ? devices.size() / rows : pipelines;
    std::vector<std::vector<int>> chains =
        takeClusters(devices, rows, count, kinds, [&](int d, int dPrime) {
          return costs.pipelineOf(d)[dPrime];
        });
    for (std::vector<int> &cluster : chains)
      chain(costs, cluster);
    std::vector<int> order(chains.size());
    std::iota(order.begin(), order.end(), 0);
    if (close) {
      std::map<std::vector<int>, int> numbers;
      std::vector<int> chainKinds;
      for (const std::vector<int> &cluster : chains) {
        std::vector<int> ofDevices;
        for (int d : cluster)
          ofDevices.push_back(kinds[d]);
        int next = static_cast<int>(numbers.size());
        chainKinds.push_back(
            numbers.try_emplace(std::move(ofDevices), next).first->second);
      }
      order = takeClusters(order, pipelines, 1, chainKinds, [&](int i, int j) {
        double sum = 0;
        for (int d : chains[i])
          for (int dPrime : chains[j])
            sum += costs.dataParallelOf(d)[dPrime];
        return sum;
      })[0];
    }
    for (int row = 0; row < rows; ++row) {
      groups.emplace_back();
      for (int k = 0; k < pipelines; ++k)
        groups.back().push_back(chains[order[k]][row]);
      for (int d : groups.back())
        devices.erase(std::find(devices.begin(), devices.end(), d));
    }
  }
  return groups;
}

std::vector<std::vector<std::vector<int>>>
poplar::buildStarts(const PlacementCosts &costs, int stages, int pipelines,
                    size_t mostLengths) {
  std::set<int> all;
  for (int blocks = 1; blocks <= stages; ++blocks)
    all.insert((stages + blocks - 1) / blocks);
  // From many lengths, takes some, evenly among them, with the first and the
  // last.
  std::vector<int> sorted(all.begin(), all.end());
  std::set<int> lengths;
  size_t count = std::min(sorted.size(), mostLengths);
  for (size_t i = 0; i < count; ++i)
    lengths.insert(
        sorted[count > 1 ? i * (sorted.size() - 1) / (count - 1) : 0]);
  std::vector<int> kinds = findKinds(costs);
  std::vector<std::vector<std::vector<int>>> starts;
  for (int length : lengths)
    for (bool close : {true, false})
      starts.push_back(
          buildStart(costs, kinds, stages, pipelines, length, close));
  return starts;
}

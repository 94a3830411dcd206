//===- PlacementStarts.cpp - Where the search for placements begins -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementStarts.h"
#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

using namespace poplar;

using Distance = std::function<double(int, int)>;

namespace {
/// An item and those nearest to it.
struct Cluster {
  /// The sum of distances, not the farthest: among equally wide clusters it
  /// prefers the dense.
  double radius = 0;
  std::vector<int> items;
};
} // namespace

static Cluster gather(int center, const std::vector<int> &items, int size,
                      const Distance &distance) {
  std::vector<std::pair<double, int>> others;
  for (int item : items)
    others.push_back({item == center ? -1 : distance(center, item), item});
  std::partial_sort(others.begin(), others.begin() + size, others.end());
  Cluster cluster;
  for (int i = 0; i < size; ++i) {
    cluster.radius += std::max(others[i].first, 0.0);
    cluster.items.push_back(others[i].second);
  }
  return cluster;
}

/// Takes clusters of `size` from among `items`, the tightest first, until there
/// are `count`. Each begins with its center.
static std::vector<std::vector<int>> takeClusters(std::vector<int> items,
                                                  int size, int count,
                                                  const Distance &distance) {
  std::vector<Cluster> around;
  for (int item : items)
    around.push_back(gather(item, items, size, distance));
  std::vector<std::vector<int>> clusters;
  while (static_cast<int>(clusters.size()) < count) {
    // As items go, clusters only grow: those that are not the tightest by what
    // was known of them need not be gathered anew.
    auto tightest = std::min_element(
        around.begin(), around.end(),
        [](const Cluster &a, const Cluster &b) { return a.radius < b.radius; });
    int center = tightest->items[0];
    Cluster current = gather(center, items, size, distance);
    if (current.radius > tightest->radius) {
      *tightest = std::move(current);
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

/// Blocks of stages that chains of `length` devices cover, the last one as long
/// as what is left.
static std::vector<std::vector<int>> buildStart(const PlacementCosts &costs,
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
        takeClusters(devices, rows, count, [&](int d, int dPrime) {
          return costs.pipelineOf(d)[dPrime];
        });
    for (std::vector<int> &cluster : chains)
      chain(costs, cluster);
    std::vector<int> order(chains.size());
    std::iota(order.begin(), order.end(), 0);
    if (close)
      order = takeClusters(order, pipelines, 1, [&](int i, int j) {
        double sum = 0;
        for (int d : chains[i])
          for (int dPrime : chains[j])
            sum += costs.dataParallelOf(d)[dPrime];
        return sum;
      })[0];
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
  std::vector<std::vector<std::vector<int>>> starts;
  for (int length : lengths)
    for (bool close : {true, false})
      starts.push_back(buildStart(costs, stages, pipelines, length, close));
  return starts;
}

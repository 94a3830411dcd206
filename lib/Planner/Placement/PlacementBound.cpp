//===- PlacementBound.cpp - What any placement costs at least -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A placement with DATAP <= T costs at least T + P(T), where P falls with T;
// the bound is the least such sum. T itself is at least B: each device has a
// group, so B is the greatest over the devices of its m - 1 least data-parallel
// costs (m = D_DP).
//
// P(T) is the integral over t of a bound on the number of links of the path
// with w > t. Let t be given, and call the components of the graph of all pairs
// of devices with pipeline cost <= t islands.
//
//   A link with w <= t is a perfect matching inside islands. So both its groups
//   have equally many devices on each island, and so has every group of a run,
//   which is what remains of the path without its links of w > t. If device d
//   of island I is in a run whose groups have x devices each on I, then
//     - the run has at most |I| / x groups, as they are disjoint;
//     - in its group, d has x - 1 devices on I and m - x elsewhere, so T is at
//       least the sum of its x - 1 least data-parallel costs on I and its m - x
//       least costs elsewhere. This gives a least x, hence a greatest length
//       L_d(T) of d's run, which is also at most D_PP.
//   A run of s groups has s m devices d with s <= L_d, so 1 / (m L_d) summed
//   over them is at most 1: there are at least sum_d 1 / (m L_d) runs, and a
//   link fewer between them.
//
//   Also, a device alone on its island lets no link of its group have w <= t.
//   There are at least ceil(alone / m) such groups. Away from a group that is
//   none of them (if there is one), each has a link of its own on the path; if
//   there is none, all D_PP - 1 links have w > t.
//
// Where D_DP = 1 this is the weight of the minimum spanning tree.
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementPath.h"
#include "Poplar/Planner/Placement/PlacementSearch.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace poplar;

/// Among many islands' thresholds this many are used, which keeps the time
/// quadratic in the devices. Fewer give a smaller bound: the links with w > t
/// are then counted at the end of a longer interval of t.
static constexpr size_t largestThresholds = 256;

namespace {
/// From `at` on, the bound on PIPELINEP is less by `seconds`.
struct Drop {
  double at, seconds;
  bool operator<(const Drop &other) const { return at < other.at; }
};

class Bound {
public:
  explicit Bound(const PlacementProblem &problem);
  double compute();

private:
  std::vector<double> findThresholds() const;
  std::vector<int> findIslands(double below) const;
  void countLinks(const std::vector<int> &island, double seconds);
  void addDrops(int d, const std::vector<int> &island, int size,
                std::vector<Drop> &drops) const;

  PlacementCosts costs;
  int devices, stages, pipelines;
  /// By device, the others by ascending data-parallel cost.
  std::vector<std::vector<int>> nearest;
  /// B above, P(T) below all drops, and the drops.
  double leastDataParallel = 0, pipeline = 0;
  std::vector<Drop> allDrops;
};
} // namespace

Bound::Bound(const PlacementProblem &problem)
    : costs(problem), devices(problem.devices), stages(problem.stages),
      pipelines(problem.pipelines()) {
  for (int d = 0; d < devices; ++d) {
    const double *cost = costs.dataParallelOf(d);
    std::vector<int> others(devices);
    std::iota(others.begin(), others.end(), 0);
    others.erase(others.begin() + d);
    std::stable_sort(others.begin(), others.end(),
                     [&](int i, int j) { return cost[i] < cost[j]; });
    double sum = 0;
    for (int i = 0; i < pipelines - 1; ++i)
      sum += cost[others[i]];
    leastDataParallel = std::max(leastDataParallel, sum);
    nearest.push_back(std::move(others));
  }
}

/// The costs at which islands merge: the edges of a minimum spanning tree
/// (Prim), ascending.
std::vector<double> Bound::findThresholds() const {
  std::vector<double> reach(devices, std::numeric_limits<double>::infinity());
  std::vector<bool> inTree(devices);
  std::vector<double> edges;
  int last = 0;
  for (int i = 1; i < devices; ++i) {
    inTree[last] = true;
    int next = -1;
    for (int d = 0; d < devices; ++d) {
      if (inTree[d])
        continue;
      reach[d] = std::min(reach[d], costs.pipelineOf(last)[d]);
      if (next < 0 || reach[d] < reach[next])
        next = d;
    }
    edges.push_back(reach[next]);
    last = next;
  }
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  std::vector<double> thresholds;
  size_t step = (edges.size() + largestThresholds - 1) / largestThresholds;
  // The last, where one island is left, must be among them.
  for (size_t i = (edges.size() - 1) % step; i < edges.size(); i += step)
    thresholds.push_back(edges[i]);
  return thresholds;
}

/// By device, the least device of its island where pairs of less than `below`
/// are joined.
std::vector<int> Bound::findIslands(double below) const {
  std::vector<int> island(devices, -1), open;
  for (int first = 0; first < devices; ++first) {
    if (island[first] >= 0)
      continue;
    island[first] = first;
    open = {first};
    while (!open.empty()) {
      const double *cost = costs.pipelineOf(open.back());
      open.pop_back();
      for (int d = 0; d < devices; ++d)
        if (island[d] < 0 && cost[d] < below) {
          island[d] = first;
          open.push_back(d);
        }
    }
  }
  return island;
}

/// Adds what device `d` takes from the sum over 1 / (m L_d) as T grows from
/// `leastDataParallel`, where the sum is 1 / m for each device.
void Bound::addDrops(int d, const std::vector<int> &island, int size,
                     std::vector<Drop> &drops) const {
  const double *cost = costs.dataParallelOf(d);
  std::vector<double> inside = {0}, outside = {0};
  for (int other : nearest[d]) {
    std::vector<double> &sums = island[other] == island[d] ? inside : outside;
    if (sums.size() < static_cast<size_t>(pipelines))
      sums.push_back(sums.back() + cost[other]);
  }
  // Ascending lengths, that is, descending x; the T from which on each is
  // possible is the least of its x, or of a smaller one's.
  double share = 1, least = std::numeric_limits<double>::infinity();
  std::vector<Drop> lengths;
  for (int x = 1; x <= std::min(pipelines, size); ++x) {
    if (static_cast<size_t>(pipelines - x) >= outside.size())
      continue;
    double needed = inside[x - 1] + outside[pipelines - x];
    if (needed >= least)
      continue;
    least = needed;
    // With a budget of at least `needed`, but less than for smaller x.
    lengths.push_back({needed, 1.0 / std::min(stages, size / x)});
  }
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length)
    if (length->seconds < share) {
      drops.push_back({length->at, (share - length->seconds) / pipelines});
      share = length->seconds;
    }
}

/// Adds `seconds` for each link that must go from island to island.
void Bound::countLinks(const std::vector<int> &island, double seconds) {
  std::vector<int> sizes(devices);
  for (int d = 0; d < devices; ++d)
    ++sizes[island[d]];
  std::vector<Drop> drops;
  int alone = 0;
  for (int d = 0; d < devices; ++d) {
    alone += sizes[island[d]] == 1;
    addDrops(d, island, sizes[island[d]], drops);
  }
  std::sort(drops.begin(), drops.end());
  double fewest = std::min((alone + pipelines - 1) / pipelines, stages - 1);
  // All runs may be of one group until something allows more.
  double runs = stages, links = stages - 1;
  pipeline += links * seconds;
  for (const Drop &drop : drops) {
    runs -= drop.seconds;
    // Rounding must not make a run of its own.
    double left = std::max(std::ceil(runs - 1e-6) - 1, fewest);
    if (left < links) {
      allDrops.push_back({drop.at, (links - left) * seconds});
      links = left;
    }
  }
}

double Bound::compute() {
  double previous = 0;
  if (stages > 1)
    for (double threshold : findThresholds()) {
      countLinks(findIslands(threshold), threshold - previous);
      previous = threshold;
    }
  std::sort(allDrops.begin(), allDrops.end());
  double best = std::numeric_limits<double>::infinity();
  double now = pipeline, at = leastDataParallel;
  for (const Drop &drop : allDrops) {
    if (drop.at > at) {
      best = std::min(best, at + now);
      at = drop.at;
    }
    now -= drop.seconds;
  }
  best = std::min(best, at + now);
  // Sums in another order than a placement's own are rounded differently.
  return best * (1 - 1e-12);
}

double poplar::boundPlacement(const PlacementProblem &problem) {
  return Bound(problem).compute();
}

//===- PlacementPath.cpp - From groups to pipelines -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementPath.h"
#include "Never.h"
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

using namespace poplar;

PlacementCosts::PlacementCosts(const PlacementProblem &problem)
    : devices(problem.devices) {
  dataParallel.reserve(problem.delay.size());
  pipeline.reserve(problem.delay.size());
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < devices; ++j) {
      dataParallel.push_back(problem.getDTFMDataParallelSeconds(i, j));
      pipeline.push_back(problem.getDTFMPipelineSeconds(i, j));
    }
}

//===----------------------------------------------------------------------===//
// Matchings
//===----------------------------------------------------------------------===//

// Rows enter one after the other by the augmenting path of least bottleneck
// (Dijkstra's algorithm with the maximum in place of the sum). The matching of
// the rows so far stays optimal: its symmetric difference with an optimal one
// of a row more holds an augmenting path none of whose edges costs more than
// the dearer of the two.
double poplar::matchGroups(const PlacementCosts &costs,
                           const std::vector<int> &first,
                           const std::vector<int> &second,
                           std::vector<int> *partner) {
  int size = first.size();
  std::vector<int> rowOf(size, -1), columnOf(size, -1), from(size);
  std::vector<double> reach(size);
  std::vector<bool> done(size);
  double bottleneck = 0;
  for (int start = 0; start < size; ++start) {
    std::fill(reach.begin(), reach.end(), never);
    std::fill(done.begin(), done.end(), false);
    int row = start, column;
    double length = bottleneck;
    for (;;) {
      const double *cost = costs.pipelineOf(first[row]);
      column = -1;
      for (int j = 0; j < size; ++j) {
        if (done[j])
          continue;
        // Whatever is below the bottleneck so far is as good as free.
        double next = std::max(length, cost[second[j]]);
        if (next < reach[j]) {
          reach[j] = next;
          from[j] = row;
        }
        if (column < 0 || reach[j] < reach[column] ||
            (reach[j] == reach[column] && rowOf[j] < 0 && rowOf[column] >= 0))
          column = j;
      }
      length = reach[column];
      if (rowOf[column] < 0)
        break;
      done[column] = true;
      row = rowOf[column];
    }
    bottleneck = length;
    while (column >= 0) {
      row = from[column];
      rowOf[column] = row;
      std::swap(columnOf[row], column);
    }
  }
  if (partner)
    *partner = std::move(columnOf);
  return bottleneck;
}

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// The most rounds of local search on a path; few take more than ten.
static constexpr int mostRounds = 100;

/// Comparisons of a local search, as a rule.
static double estimatePath(double groups) { return 70 * groups * groups; }

namespace {
/// Symmetric distances between groups, and paths over all of them.
class Paths {
public:
  Paths(const PlacementCosts &costs,
        const std::vector<std::vector<int>> &groups)
      : count(groups.size()), distances(count * count) {
    for (size_t i = 0; i < count; ++i)
      for (size_t j = i + 1; j < count; ++j)
        distances[i * count + j] = distances[j * count + i] =
            matchGroups(costs, groups[i], groups[j]);
  }

  std::vector<int> findShortest() const;
  std::vector<int> findShort(int starts) const;
  double getLength(const std::vector<int> &path) const {
    double length = 0;
    for (size_t i = 0; i + 1 < path.size(); ++i)
      length += get(path[i], path[i + 1]);
    return length;
  }

private:
  double get(size_t i, size_t j) const { return distances[i * count + j]; }
  std::vector<int> greedyFrom(int start) const;
  bool improve(std::vector<int> &path) const;
  void improveFully(std::vector<int> &path) const;

  size_t count;
  std::vector<double> distances;
};
} // namespace

/// Held and Karp: best[set][last] is the shortest path over `set` that ends at
/// `last`.
std::vector<int> Paths::findShortest() const {
  size_t sets = size_t(1) << count;
  std::vector<double> best(sets * count, never);
  std::vector<int8_t> before(sets * count, -1);
  for (size_t i = 0; i < count; ++i)
    best[(size_t(1) << i) * count + i] = 0;
  for (size_t set = 1; set < sets; ++set)
    for (size_t last = 0; last < count; ++last) {
      double length = best[set * count + last];
      if (length == never)
        continue;
      for (size_t next = 0; next < count; ++next) {
        if (set >> next & 1)
          continue;
        size_t at = (set | size_t(1) << next) * count + next;
        if (length + get(last, next) < best[at]) {
          best[at] = length + get(last, next);
          before[at] = static_cast<int8_t>(last);
        }
      }
    }
  size_t set = sets - 1;
  int last =
      std::min_element(best.end() - count, best.end()) - (best.end() - count);
  std::vector<int> path;
  while (last >= 0) {
    path.push_back(last);
    int previous = before[set * count + last];
    set ^= size_t(1) << last;
    last = previous;
  }
  return path;
}

std::vector<int> Paths::greedyFrom(int start) const {
  std::vector<int> path(count);
  std::iota(path.begin(), path.end(), 0);
  std::swap(path[0], path[start]);
  for (size_t i = 1; i < count; ++i) {
    auto nearest =
        std::min_element(path.begin() + i, path.end(), [&](int j, int k) {
          return get(path[i - 1], j) < get(path[i - 1], k);
        });
    std::swap(path[i], *nearest);
  }
  return path;
}

/// One round of reversals and of moves of up to three groups (2-opt and
/// Or-opt). True if the path became shorter.
bool Paths::improve(std::vector<int> &path) const {
  // Rounding must not make a circle of improvements.
  const double margin = 1e-12 * getLength(path);
  int size = path.size();
  auto link = [&](int i, int j) {
    return i < 0 || j >= size ? 0 : get(path[i], path[j]);
  };
  bool improved = false;
  for (int i = 0; i < size; ++i)
    for (int j = i + 1; j < size; ++j) {
      double gain =
          link(i - 1, i) + link(j, j + 1) - link(i - 1, j) - link(i, j + 1);
      if (gain > margin) {
        std::reverse(path.begin() + i, path.begin() + j + 1);
        improved = true;
      }
    }
  for (int length = 1; length <= 3; ++length)
    for (int i = 0; i + length <= size; ++i) {
      // The path without [i, i + length), which then goes between others.
      int end = i + length;
      double removed = link(i - 1, i) + link(end - 1, end) -
                       (i > 0 && end < size ? get(path[i - 1], path[end]) : 0);
      double bestGain = margin;
      int bestPlace = -1;
      bool bestReversed = false;
      for (int place = 0; place <= size; ++place) {
        // Before the group at `place`.
        if (place >= i && place <= end)
          continue;
        for (bool reversed : {false, true}) {
          int head = reversed ? end - 1 : i, tail = reversed ? i : end - 1;
          double added = -link(place - 1, place);
          added += place > 0 ? get(path[place - 1], path[head]) : 0;
          added += place < size ? get(path[tail], path[place]) : 0;
          if (removed - added > bestGain) {
            bestGain = removed - added;
            bestPlace = place;
            bestReversed = reversed;
          }
        }
      }
      if (bestPlace < 0)
        continue;
      if (bestReversed)
        std::reverse(path.begin() + i, path.begin() + end);
      if (bestPlace > i)
        std::rotate(path.begin() + i, path.begin() + end,
                    path.begin() + bestPlace);
      else
        std::rotate(path.begin() + bestPlace, path.begin() + i,
                    path.begin() + end);
      improved = true;
    }
  return improved;
}

void Paths::improveFully(std::vector<int> &path) const {
  for (int round = 0; round < mostRounds && improve(path); ++round)
    ;
}

/// From the given order and from greedy paths, whose starts are spread evenly.
std::vector<int> Paths::findShort(int starts) const {
  std::vector<int> best(count);
  std::iota(best.begin(), best.end(), 0);
  improveFully(best);
  for (int i = 0; i < starts; ++i) {
    std::vector<int> path =
        greedyFrom(static_cast<int>(count * static_cast<size_t>(i) / starts));
    improveFully(path);
    if (getLength(path) < getLength(best))
      best = std::move(path);
  }
  return best;
}

double poplar::estimateArranging(int groups, int size, int exactGroups,
                                 double effort) {
  double matching = std::pow(double(size), 3), path = estimatePath(groups);
  if (groups <= exactGroups)
    return groups * (groups - 1) / 2.0 * matching +
           std::pow(2.0, groups) * groups * groups;
  if (path > effort)
    return (groups - 1) * matching;
  return groups * (groups - 1) / 2.0 * matching +
         path * (1 + std::min(std::floor(effort / path), double(groups)));
}

/// The order of the groups along the path.
static std::vector<int> order(const PlacementCosts &costs,
                              const std::vector<std::vector<int>> &groups,
                              int exactGroups, double effort) {
  int count = static_cast<int>(groups.size());
  if (count <= exactGroups)
    return Paths(costs, groups).findShortest();
  double starts = std::min(effort / estimatePath(count), double(count));
  if (starts >= 1)
    return Paths(costs, groups).findShort(static_cast<int>(starts));
  std::vector<int> same(count);
  std::iota(same.begin(), same.end(), 0);
  return same;
}

void poplar::arrangeGroups(const PlacementCosts &costs,
                           std::vector<std::vector<int>> &groups,
                           int exactGroups, double effort) {
  std::vector<std::vector<int>> arranged;
  std::vector<int> partner;
  for (int group : order(costs, groups, exactGroups, effort)) {
    std::vector<int> devices = std::move(groups[group]);
    if (!arranged.empty()) {
      matchGroups(costs, arranged.back(), devices, &partner);
      std::vector<int> matched;
      for (int index : partner)
        matched.push_back(devices[index]);
      devices = std::move(matched);
    }
    arranged.push_back(std::move(devices));
  }
  groups = std::move(arranged);
}

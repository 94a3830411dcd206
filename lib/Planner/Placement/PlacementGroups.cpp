//===- PlacementGroups.cpp - Groups under local search --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Placement/PlacementGroups.h"
#include "Never.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace poplar;

PlacementGroups::PlacementGroups(const PlacementCosts &costs, int groups)
    : costs(costs), count(groups), size(costs.devices / groups),
      dataParallel(groups), weights(groups * groups),
      table((size_t(1) << groups) * groups) {}

double PlacementGroups::estimateExchange() const {
  return 2.0 * count * std::pow(double(size), 3) +
         std::pow(2.0, count) * count * count / 2;
}

double PlacementGroups::getDataParallel(int group) const {
  double most = 0;
  for (int d : groups[group]) {
    double sum = 0;
    for (int other : groups[group])
      sum += costs.dataParallelOf(d)[other];
    most = std::max(most, sum);
  }
  return most;
}

/// Held and Karp's dynamic programme, of the length alone.
double PlacementGroups::findShortestPath() const {
  size_t sets = size_t(1) << count;
  std::fill(table.begin(), table.end(), never);
  for (int i = 0; i < count; ++i)
    table[(size_t(1) << i) * count + i] = 0;
  for (size_t set = 1; set < sets; ++set)
    for (int last = 0; last < count; ++last) {
      double length = table[set * count + last];
      if (length == never)
        continue;
      for (int next = 0; next < count; ++next) {
        if (set >> next & 1)
          continue;
        double &entry = table[(set | size_t(1) << next) * count + next];
        entry = std::min(entry, length + weights[last * count + next]);
      }
    }
  return *std::min_element(table.end() - count, table.end());
}

double PlacementGroups::getSeconds() const {
  return *std::max_element(dataParallel.begin(), dataParallel.end()) +
         findShortestPath();
}

void PlacementGroups::load(const Groups &from) {
  groups = from;
  for (int i = 0; i < count; ++i) {
    dataParallel[i] = getDataParallel(i);
    for (int j = 0; j < i; ++j)
      weights[i * count + j] = weights[j * count + i] =
          matchGroups(costs, groups[i], groups[j]);
  }
  seconds = getSeconds();
}

bool PlacementGroups::tryExchange(int group, int index, int otherGroup,
                                  int otherIndex, double limit) {
  int &d = groups[group][index], &other = groups[otherGroup][otherIndex];
  std::swap(d, other);
  double oldData[] = {dataParallel[group], dataParallel[otherGroup]};
  dataParallel[group] = getDataParallel(group);
  dataParallel[otherGroup] = getDataParallel(otherGroup);
  double most = *std::max_element(dataParallel.begin(), dataParallel.end());
  std::vector<double> old = weights;
  if (most <= limit) {
    for (int i = 0; i < count; ++i)
      for (int changed : {group, otherGroup})
        if (i != changed && (i != group || changed != otherGroup))
          weights[i * count + changed] = weights[changed * count + i] =
              matchGroups(costs, groups[i], groups[changed]);
    double now = most + findShortestPath();
    if (now <= limit) {
      seconds = now;
      return true;
    }
  }
  std::swap(d, other);
  dataParallel[group] = oldData[0];
  dataParallel[otherGroup] = oldData[1];
  weights = std::move(old);
  return false;
}

PlacementGroups::Groups PlacementGroups::anneal(const Groups &from,
                                                const Schedule &schedule) {
  Sequence sequence(schedule.sequence);
  load(from);
  Groups best = groups;
  double least = seconds;
  const double start = seconds;
  for (int64_t i = 0; i < schedule.exchanges; ++i) {
    double progress = double(i) / double(schedule.exchanges),
           temperature = start * schedule.hot *
                         std::pow(schedule.cold / schedule.hot, progress);
    int group = sequence.below(count), other = sequence.below(count);
    int index = sequence.below(size), otherIndex = sequence.below(size);
    if (group == other)
      continue;
    double limit = seconds - temperature * std::log(sequence.unit());
    if (tryExchange(group, index, other, otherIndex, limit) &&
        seconds < least) {
      least = seconds;
      best = groups;
    }
  }
  return best;
}

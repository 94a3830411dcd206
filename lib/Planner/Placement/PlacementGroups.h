//===- PlacementGroups.h - Groups under local search ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What PlacementGrid does, but with pipelines and the order of the stages made
// optimal after every exchange: a change costs much more, and what it is worth
// is known. Where links have little to do with places, a device rarely fits
// into the pipeline of another one.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_PLACEMENTGROUPS_H
#define POPLAR_LIB_PLANNER_PLACEMENTGROUPS_H

#include "Placement/PlacementGrid.h"

namespace poplar {

class PlacementGroups {
public:
  /// There may be at most largestExactPath groups.
  PlacementGroups(const PlacementCosts &costs, int groups);

  using Groups = std::vector<std::vector<int>>;

  struct Schedule {
    /// First and last temperature, as a share of the cost at the start.
    double hot, cold;
    int64_t exchanges;
    uint64_t sequence;
  };
  /// Returns the best groups met.
  Groups anneal(const Groups &from, const Schedule &schedule);

  /// About how many comparisons an exchange takes.
  double estimateExchange() const;

private:
  void load(const Groups &from);
  double getDataParallel(int group) const;
  double getSeconds() const;
  double findShortestPath() const;
  /// Exchanges two devices of two groups unless that costs more than `limit`.
  bool tryExchange(int group, int index, int otherGroup, int otherIndex,
                   double limit);

  const PlacementCosts &costs;
  int count, size;
  Groups groups;
  /// By group; by pair of groups.
  std::vector<double> dataParallel, weights;
  double seconds = 0;
  /// Held and Karp's table.
  mutable std::vector<double> table;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_PLACEMENTGROUPS_H

//===- PlacementPath.h - From groups to pipelines ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of the placement problem that is solved exactly: matchings between
// given groups and the path over them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_PLACEMENTPATH_H
#define POPLAR_LIB_PLANNER_PLACEMENTPATH_H

#include "Poplar/Planner/Placement/Placement.h"

namespace poplar {

/// Seconds by pair of devices, tabulated. Zero on the diagonals.
struct PlacementCosts {
  explicit PlacementCosts(const PlacementProblem &problem);
  /// All zero.
  explicit PlacementCosts(int devices)
      : devices(devices), dataParallel(size_t(devices) * devices),
        pipeline(size_t(devices) * devices) {}

  int devices;
  /// Row-major; see PlacementProblem's functions of the same names.
  std::vector<double> dataParallel, pipeline;

  const double *dataParallelOf(int d) const {
    return &dataParallel[static_cast<size_t>(d) * devices];
  }
  const double *pipelineOf(int d) const {
    return &pipeline[static_cast<size_t>(d) * devices];
  }
};

/// Bottleneck perfect matching of two groups of as many devices: the least
/// possible greatest pipeline cost of a pair. `partner`, where given, becomes
/// the index in `second` of each device of `first`.
double matchGroups(const PlacementCosts &costs, const std::vector<int> &first,
                   const std::vector<int> &second,
                   std::vector<int> *partner = nullptr);

/// Reorders groups along the shortest path between them, and the devices of
/// each so that the k-th ones form pipeline k by optimal matchings. The path is
/// exact (Held and Karp's dynamic programme) for up to `exactGroups` groups,
/// at most largestExactPath; beyond, it is no longer than in the given order,
/// and `effort`, in comparisons, limits from how many greedy paths it is
/// searched. Where that is too little for one, the order is kept.
void arrangeGroups(const PlacementCosts &costs,
                   std::vector<std::vector<int>> &groups, int exactGroups,
                   double effort);

/// About how many comparisons that is at most.
double estimateArranging(int groups, int size, int exactGroups, double effort);

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_PLACEMENTPATH_H

//===- CollectiveTesting.h - Clusters to collect on -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_COLLECTIVETESTING_H
#define POPLAR_UNITTESTS_PLANNER_COLLECTIVETESTING_H

#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "RandomCluster.h"

namespace poplar::test {

/// `sizes[n]` ranks of one type on node n.
inline ClusterView makeCluster(const std::vector<int> &sizes) {
  ClusterView cluster;
  cluster.types = {makeDeviceType("type", 1 << 30)};
  for (int size : sizes) {
    int node = static_cast<int>(cluster.nodes.size());
    cluster.nodes.push_back({"n" + std::to_string(node),
                             static_cast<int>(cluster.ranks.size()), size});
    for (int i = 0; i < size; ++i)
      cluster.ranks.push_back({node, 0});
  }
  cluster.defaultInside = LinkSpeed{0.25, 8192};
  cluster.defaultBetween = LinkSpeed{0.5, 1024};
  return cluster;
}

/// Seconds of each port.
inline std::vector<double>
getUses(const SimulationProblem::Collective &collective) {
  std::vector<double> seconds;
  for (const auto &use : collective.uses)
    seconds.push_back(use.seconds);
  return seconds;
}

} // namespace poplar::test

#endif // POPLAR_UNITTESTS_PLANNER_COLLECTIVETESTING_H

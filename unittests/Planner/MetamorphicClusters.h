//===- MetamorphicClusters.h - Better or equal clusters ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Changes of a cluster after which the best plan takes no more time: the same
// cluster in another order, or one with more to choose from. What a planner
// finds must not get worse, whether it searches everything or not.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_PLANNER_METAMORPHICCLUSTERS_H
#define POPLAR_UNITTESTS_PLANNER_METAMORPHICCLUSTERS_H

#include "RandomCluster.h"
#include <functional>

namespace poplar::test {

struct ClusterChange {
  const char *name;
  /// The cluster is the same but for names and order, so that the plan gets no
  /// better either.
  bool isSame;
  /// By how much the plan may be worse, relatively. The order of unlike devices
  /// on a node is no matter of names only: a slice passes through one device of
  /// each other node, chosen by the rank of its owner
  /// (runtime/comm/Topology.h), so that it decides who has how much to pass on.
  double tolerance;
  /// None where the cluster has nothing to change.
  std::function<std::optional<ClusterView>(const ClusterView &, std::mt19937 &)>
      apply;
};

/// Permutes nodes, types, and the devices of nodes; splits a type in two;
/// doubles the cluster; adds a slow device behind a slow link; makes a type
/// faster, or gives it more memory; makes a link better.
const std::vector<ClusterChange> &getClusterChanges();

/// Unlike nodes, of which some have several types, with links of their own
/// between them: one to `mostNodes` nodes of one to `mostDevices` devices.
RandomCluster makeUnevenCluster(std::mt19937 &random, int mostNodes,
                                int mostDevices);

/// For messages: nodes, devices and links.
std::string describeCluster(const ClusterView &cluster);

/// How many random clusters a test is to try: POPLAR_METAMORPHIC_CLUSTERS, or
/// `few`.
int countClusters(int few);
/// `usual`, or a seed that follows from POPLAR_METAMORPHIC_SEED for clusters
/// that no one has seen.
unsigned chooseSeed(unsigned usual);
/// False if POPLAR_METAMORPHIC_ONLY is the number of another cluster.
bool isChosen(int cluster);

} // namespace poplar::test

#endif // POPLAR_UNITTESTS_PLANNER_METAMORPHICCLUSTERS_H

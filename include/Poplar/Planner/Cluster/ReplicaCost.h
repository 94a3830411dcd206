//===- ReplicaCost.h - Collectives of shard groups --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where shard groups hold replicas of the state (zero.plan), every group
// gathers and reduces on its own, all of them at the same time. Then the ranks
// in one place of all groups, peers, add up the shard that they hold, each a
// part of it. The peers of all places do so at the same time, and those on a
// node share its link. With R groups of S ranks, E elements, and m places on a
// node, that is between nodes, in each direction,
//
//   2 (R-1)/R m E/S
//
// elements for an all-reduce, instead of 2 (N-1)/N E of one group on N nodes:
// as much, where a group is a node, but once in an iteration.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_REPLICACOST_H
#define POPLAR_PLANNER_CLUSTER_REPLICACOST_H

#include "Poplar/Planner/Cluster/CollectiveCost.h"

namespace poplar {

class ReplicaCost {
public:
  /// For the shard groups of `ranks`, the first ones, the next ones, and so on;
  /// equally many in each.
  ReplicaCost(const ClusterView &cluster, const std::vector<ClusterRank> &ranks,
              int64_t replicas);

  // In shard groups, until the slowest is done. Bounds are those of a group.

  SimulationProblem::Collective allGather(std::string name,
                                          const std::vector<int64_t> &bounds,
                                          double elementBytes) const;
  SimulationProblem::Collective
  reduceScatter(std::string name, const std::vector<int64_t> &bounds,
                double elementBytes) const;

  /// The two halves of the sum of shards across groups.
  SimulationProblem::Collective reduceShards(std::string name,
                                             const std::vector<int64_t> &bounds,
                                             double elementBytes) const;
  SimulationProblem::Collective gatherShards(std::string name,
                                             const std::vector<int64_t> &bounds,
                                             double elementBytes) const;

  /// The numbers of shard groups, two or more, of equally many ranks, two or
  /// more, such that a group is in one node or has all ranks of its nodes.
  static std::vector<int64_t> list(const std::vector<ClusterRank> &ranks);

private:
  struct Peers {
    CollectiveCost cost;
    /// In a shard group.
    size_t place;
    /// The most places on a node of theirs.
    double sharers;
  };
  SimulationProblem::Collective
  collectInGroups(const std::string &name, const std::vector<int64_t> &bounds,
                  double elementBytes, bool reduces) const;
  SimulationProblem::Collective sumShards(const std::string &name,
                                          const std::vector<int64_t> &bounds,
                                          double elementBytes,
                                          bool reduces) const;

  int64_t replicas;
  /// Those that differ.
  std::vector<CollectiveCost> groups;
  std::vector<Peers> peers;
};

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_REPLICACOST_H

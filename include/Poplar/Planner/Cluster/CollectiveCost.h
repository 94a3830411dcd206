//===- CollectiveCost.h - What a collective needs of links ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The runtime's collectives (runtime/comm) send every slice of the data from
// its owner straight to who needs it, in chunks, all slices at the same time.
// Where nodes have several ranks, a slice crosses to another node once, to its
// leader there, who passes it on (runtime/comm/Trees.h):
//
//   owner of the slice ---+--- others of its node
//                         |
//                         +--- leaders of other nodes --- others of those nodes
//
// An all-gather goes down these trees, a reduce-scatter up. What limits both is
// the end of a link, a port, that has the most to do: a device has one to its
// node in each direction, a node one to the others. A message of n bytes keeps
// both of its ends for n / bandwidth of its link; chunks pass the levels of a
// tree at the same time, so that only latencies add up (CollectiveLatency.h).
//
// With E elements of g bytes in equal shards on N nodes of m ranks, linked at
// bandwidth B inside and b between nodes, that is
//
//   between  (N-1)/N E g / b      inside  (m-1)/m E g / B
//
// which no algorithm can beat (Chan et al., Collective communication: theory,
// practice, and experience, 2007, table 1).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_COLLECTIVECOST_H
#define POPLAR_PLANNER_CLUSTER_COLLECTIVECOST_H

#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Planner/Simulation/Simulator.h"
#include <optional>
#include <utility>

namespace poplar {

/// Costs of collectives over all ranks of a job.
class CollectiveCost {
public:
  /// Kinds of ports. The ports of all devices, and of all nodes, are one in a
  /// simulation: no two collectives of all ranks are under way at a time, and
  /// in one the busiest port decides.
  enum Port { DeviceOut, DeviceIn, NodeOut, NodeIn };
  static constexpr int numPorts = 4;

  /// The cost of collectives among `ranks`, whose nodes and types are indices
  /// into the cluster's. All nodes that are in use must be linked.
  CollectiveCost(const ClusterView &cluster,
                 const std::vector<ClusterRank> &ranks);

  /// Rank r owns the elements [bounds[r], bounds[r + 1]), of `elementBytes`
  /// bytes each on the wire.
  SimulationProblem::Collective allGather(std::string name,
                                          const std::vector<int64_t> &bounds,
                                          double elementBytes) const {
    return makeCollective(std::move(name), bounds, getDeviceSeconds(bounds),
                          elementBytes, elementBytes, false);
  }
  /// Inside of nodes, elements have `insideBytes` if that is another number.
  SimulationProblem::Collective
  reduceScatter(std::string name, const std::vector<int64_t> &bounds,
                double elementBytes,
                std::optional<double> insideBytes = std::nullopt) const {
    return makeCollective(std::move(name), bounds, getDeviceSeconds(bounds),
                          elementBytes, insideBytes.value_or(elementBytes),
                          true);
  }
  /// Both over the same shards.
  std::pair<SimulationProblem::Collective, SimulationProblem::Collective>
  gatherAndReduce(const std::vector<int64_t> &bounds, double gatherBytes,
                  double reduceBytes, double reduceInsideBytes) const;
  /// Every rank gets `bytes` bytes of every other one: counts, norms.
  SimulationProblem::Collective exchange(std::string name, int64_t bytes) const;

  /// Ranks for a search of what each owns: nodes whose ranks are of the same
  /// classes are interchangeable; ranks of one variable own as much each.
  struct Ownership {
    std::vector<size_t> classes, variables;
    size_t numVariables = 0;
  };
  /// What a port or a rank has to do, as a function of what ranks own:
  /// `constant` plus, for each variable, `factors` times the part of the data
  /// that each of its ranks owns.
  struct Load {
    double constant = 0;
    std::vector<double> factors;
  };
  /// Seconds of all ports per byte of the data; ports of equal loads may be
  /// left out.
  /// `inside` says how many bytes move inside of a node for one between nodes.
  std::vector<Load> listPorts(const Ownership &ownership, bool reduces,
                              double inside = 1) const;
  /// What ranks send and receive, in parts of the data.
  std::vector<Load> listRanks(const Ownership &ownership) const;

private:
  /// A node that ranks of the job are on.
  struct Node {
    /// As rank numbers, increasing.
    std::vector<int> ranks;
    double insideBandwidth = 0;
    /// Sums over all other nodes, of 1 / bandwidth of the link to it, and from
    /// it.
    double outInverse = 0, inInverse = 0;
  };
  /// A link that is not the default one, and what its 1 / bandwidth is more
  /// than that one's.
  struct OwnLink {
    int from, to;
    double extraInverse;
  };

  double addLinks(const ClusterView &cluster, const std::vector<int> &indices);
  void listDevicePorts(const Ownership &ownership, double inside,
                       std::vector<Load> &ports) const;
  void listNodePorts(const Ownership &ownership, bool rootsReceive,
                     std::vector<Load> &ports) const;
  SimulationProblem::Collective
  makeCollective(std::string name, const std::vector<int64_t> &bounds,
                 std::pair<double, double> deviceSeconds, double elementBytes,
                 double insideBytes, bool reduces) const;
  /// Seconds of the busiest device, per byte of an element: as the root of
  /// trees, and as a leaf.
  std::pair<double, double>
  getDeviceSeconds(const std::vector<int64_t> &bounds) const;
  /// The same of the busiest node. In a reduce-scatter the roots receive.
  std::pair<double, double> getNodeSeconds(const std::vector<int64_t> &bounds,
                                           bool rootsReceive) const;

  /// What the busiest rank sends and receives, in elements, without what
  /// leaders pass on.
  double getElements(const std::vector<int64_t> &bounds) const;

  std::vector<Node> nodes;
  std::vector<OwnLink> ownLinks;
  /// 1 / bandwidth of the default link between nodes.
  double defaultInverse = 0;
  /// The most of any link in use.
  double overhead = 0;
  /// Latency of messages that follow one another, from a root to a leaf.
  double latency = 0;
};

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_COLLECTIVECOST_H

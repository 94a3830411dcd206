//===- DeviceSpace.h - Devices that can take part in a job ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The devices of a cluster as a search sees them. Devices of one type on one
// node are interchangeable: they are a slot, of which a job takes a number.
// Nodes are interchangeable if they have the same devices and the same links.
//
// Everything follows from the structure of the cluster. The order of nodes in a
// file decides only between nodes that are interchangeable.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_DEVICESPACE_H
#define POPLAR_PLANNER_CLUSTER_DEVICESPACE_H

#include "Poplar/Planner/Cluster/Cluster.h"

namespace poplar {

struct DeviceSpace {
  /// Devices of one type on one node.
  struct Slot {
    int type, node;
    int64_t count;
  };
  /// Slots [first, end), those of one node.
  struct NodeSlots {
    size_t first, end;
  };
  /// Slots that a search takes or leaves together, in the order in which it
  /// takes them.
  using Group = std::vector<size_t>;

  /// A node's slots are in a row. Well connected nodes come first; of these,
  /// large ones.
  std::vector<Slot> slots;
  /// Interchangeable nodes. Every node with slots is in one class.
  std::vector<std::vector<NodeSlots>> classes;
  /// Device types; sites, which are nodes that are linked better with one
  /// another than with others; classes; nodes; and the types in each. Large
  /// groups come first.
  std::vector<Group> groups;
  size_t numTypes = 0;

  /// The choices among devices whose type is one of the `usable` ones.
  DeviceSpace(const ClusterView &cluster, const std::vector<bool> &usable);

  /// As many devices of each type, without nodes.
  static DeviceSpace ofTypes(const std::vector<int64_t> &counts);

  /// The number of choices that differ by more than an exchange of nodes, at
  /// most `most`.
  int64_t countChoices(int64_t most) const;
  /// Exchanges nodes, so that of choices that differ by no more all become the
  /// same one.
  void makeCanonical(std::vector<int64_t> &choice) const;
  /// All devices.
  std::vector<int64_t> all() const;
  /// By device type.
  std::vector<int64_t> countTypes(const std::vector<int64_t> &choice) const;
  /// Numbers the ranks of a job of a choice, so that ranks have the same number
  /// if they are of one type, on nodes that are interchangeable and of which as
  /// many devices take part.
  std::vector<size_t> classifyRanks(const ClusterView &job,
                                    const std::vector<int64_t> &choice) const;

private:
  DeviceSpace() = default;
  void addGroup(Group group);
  void addGroups(const std::vector<std::vector<int>> &sites);
};

/// Sets of nodes that are linked with one another by links of at least some
/// bandwidth, for every bandwidth in the cluster: from the fastest links on,
/// without single nodes.
std::vector<std::vector<int>> findNodeSites(const ClusterView &cluster);

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_DEVICESPACE_H

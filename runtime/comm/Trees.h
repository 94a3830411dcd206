//===- Trees.h - The ways of slices through the group -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A slice travels along a tree: an all-gather from its owner to the leaves, a
// reduce-scatter from the leaves to its owner.
//
//   owner of the slice ---+--- others of its node
//                         |
//                         +--- leaders of other nodes --- others of those nodes
//
// Between ranks of one node, and where no node has two, it is one level deep.
// The others of an island with a library take no part: its leader hands on.
// The tag of all messages of a slice is its number.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_TREES_H
#define POPLAR_RUNTIME_COMM_TREES_H

#include "comm/Topology.h"

namespace poplar::runtime::comm {

/// Chunks of a slice under way at a time, between two ranks.
constexpr int Depth = 4;

/// The next rank on the way from `Rank` to the owner of `Slice`; -1 for the
/// owner.
inline int getParent(const Topology &Topo, int Rank, int Slice) {
  if (Rank == Slice)
    return -1;
  int Leader = Topo.getLeader(Topo.getNode(Rank), Slice);
  return Rank == Leader ? Slice : Leader;
}

/// Ascending, but from the rank after `Rank` on, so that ranks do not all turn
/// to the same one first.
inline std::vector<int> getChildren(const Topology &Topo, int Rank, int Slice) {
  std::vector<int> Children;
  for (int I = 1; I < Topo.size(); ++I) {
    int Other = (Rank + I) % Topo.size();
    if (Topo.takesPart(Other, Slice) && getParent(Topo, Other, Slice) == Rank)
      Children.push_back(Other);
  }
  return Children;
}

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_TREES_H

//===- Topology.h - Which ranks share a node --------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Links inside a node are fast, links between nodes are not, so a collective
// crosses them once per node and not once per rank: for each slice of the data,
// every node has one rank, its leader for this slice, that exchanges with other
// nodes. Leadership is spread over the ranks of a node.
//
// Nodes may also be islands: ranks that share a library of their own for their
// devices' memory (IslandLibrary.h). Messages then go between leaders only.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_TOPOLOGY_H
#define POPLAR_RUNTIME_COMM_TOPOLOGY_H

#include <string>
#include <vector>

namespace poplar::runtime::comm {

class Topology {
public:
  /// `Nodes[r]` is any number that names the node of rank r; `WithLibrary[r]`,
  /// if given, whether this node is an island with a library.
  explicit Topology(const std::vector<int> &Nodes,
                    const std::vector<bool> &WithLibrary = {});

  int size() const { return static_cast<int>(NodeOf.size()); }
  int numNodes() const { return static_cast<int>(Members.size()); }
  /// Nodes are numbered in the order of their first ranks.
  int getNode(int Rank) const { return NodeOf[Rank]; }
  /// The ranks of a node, ascending.
  const std::vector<int> &getMembers(int Node) const { return Members[Node]; }
  /// Whether the ranks of a node reach each other by a library.
  bool hasLibrary(int Node) const { return Library[Node]; }
  /// The place of a rank among those of its node.
  int getLocalRank(int Rank) const { return LocalRank[Rank]; }
  /// Some node has several ranks, and there are several nodes.
  bool isTwoLevel() const { return numNodes() > 1 && numNodes() < size(); }
  /// The rank of `Node` that exchanges slice `Slice` with other nodes. The
  /// owner of a slice is its own node's leader.
  int getLeader(int Node, int Slice) const;
  /// Whether messages about slice `Slice` concern a rank: all but those that
  /// get it by their island's library.
  bool takesPart(int Rank, int Slice) const {
    return !hasLibrary(getNode(Rank)) ||
           getLeader(getNode(Rank), Slice) == Rank;
  }

  /// Whether a rank sends its node's part of slice `Slice` to another node: its
  /// node has not the owner, and it leads there.
  bool crosses(int Rank, int Slice) const {
    int Node = getNode(Rank);
    return getNode(Slice) != Node && getLeader(Node, Slice) == Rank;
  }

private:
  std::vector<int> NodeOf, LocalRank;
  std::vector<bool> Library;
  std::vector<std::vector<int>> Members;
};

/// Reads a node map such as `0,0,1,1`, one number per rank; throws an Error
/// that names `Variable`, where it comes from.
std::vector<int> parseNodes(const std::string &Text, int Size,
                            const std::string &Variable);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_TOPOLOGY_H

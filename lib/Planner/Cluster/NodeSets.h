//===- NodeSets.h - Nodes that belong together ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_PLANNER_CLUSTER_NODESETS_H
#define POPLAR_LIB_PLANNER_CLUSTER_NODESETS_H

#include <algorithm>
#include <numeric>
#include <vector>

namespace poplar {

/// Disjoint sets of nodes; the first node of a set stands for it.
class NodeSets {
public:
  explicit NodeSets(size_t numNodes) : parents(numNodes) {
    std::iota(parents.begin(), parents.end(), 0);
  }
  int find(int node) {
    while (parents[node] != node)
      node = parents[node] = parents[parents[node]];
    return node;
  }
  void join(int a, int b) {
    a = find(a);
    b = find(b);
    parents[std::max(a, b)] = std::min(a, b);
  }

private:
  std::vector<int> parents;
};

} // namespace poplar

#endif // POPLAR_LIB_PLANNER_CLUSTER_NODESETS_H

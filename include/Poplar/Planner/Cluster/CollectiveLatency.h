//===- CollectiveLatency.h - Latencies of a collective ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How many messages of a collective follow one another, each of which waits for
// the latency of its link. That depends on the algorithm:
//
// - The runtime's own collectives (runtime/comm/Trees.h) send every slice
//   straight to all who need it, at the same time. The latencies of messages
//   under way together pass together (LogGP: Alexandrov et al., LogGP:
//   Incorporating long messages into the LogP model, 1995): one latency between
//   nodes and one inside, for any number of ranks. What a message takes of its
//   sender's cores is the link's `overhead`.
// - NCCL and RCCL pass slices around a ring, in which each of n ranks waits for
//   the one before it: n - 1 messages follow one another (Thakur, Rabenseifner
//   and Gropp, Optimization of collective communication operations in MPICH,
//   2005, sections 4.1 and 4.2). A ring over N nodes crosses between them N - 1
//   times. Also what these libraries do by other algorithms, by trees where
//   NVSwitches add up, counts as a ring: they choose what is faster.
//
// GPUs that have the same library are an island, which is one ring over all its
// nodes (runtime/comm/Islands.h). Other ranks get slices from a leader of the
// island, and the island from leaders of other nodes, so that a ring and the
// direct messages follow one another.
//
// An all-reduce is a reduce-scatter and an all-gather, and has twice as many.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_PLANNER_CLUSTER_COLLECTIVELATENCY_H
#define POPLAR_PLANNER_CLUSTER_COLLECTIVELATENCY_H

#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

/// By what the ranks of a device type collect.
enum class CollectiveLibrary {
  /// The runtime's own messages.
  None,
  NCCL,
  RCCL
};
/// The library of a target: "cuda:sm_80", "hip:gfx90a", "host:avx2-f32".
CollectiveLibrary getCollectiveLibrary(const std::string &target);

/// Nodes that have as many ranks with the same library.
struct CollectiveNodes {
  CollectiveLibrary library = CollectiveLibrary::None;
  int64_t nodes = 1, ranksPerNode = 1;
};

/// Messages that follow one another in an all-gather, or a reduce-scatter.
struct CollectiveSteps {
  int64_t inside = 0, between = 0;

  /// Counts the steps among ranks on `numNodes` nodes. A node whose ranks have
  /// several libraries is in `nodes` with each.
  static CollectiveSteps count(const std::vector<CollectiveNodes> &nodes,
                               int64_t numNodes);
  /// Counts the steps among ranks with the same library in one node.
  static CollectiveSteps countInside(CollectiveLibrary library, int64_t ranks) {
    return count({{library, 1, ranks}}, 1);
  }

  double getSeconds(double insideLatency, double betweenLatency) const {
    return static_cast<double>(inside) * insideLatency +
           static_cast<double>(between) * betweenLatency;
  }
};

} // namespace poplar

#endif // POPLAR_PLANNER_CLUSTER_COLLECTIVELATENCY_H

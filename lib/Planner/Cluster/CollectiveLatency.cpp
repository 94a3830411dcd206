//===- CollectiveLatency.cpp - Latencies of a collective ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/CollectiveLatency.h"
#include <algorithm>

using namespace poplar;

CollectiveLibrary poplar::getCollectiveLibrary(const std::string &target) {
  std::string kind = target.substr(0, target.find(':'));
  return kind == "cuda"  ? CollectiveLibrary::NCCL
         : kind == "hip" ? CollectiveLibrary::RCCL
                         : CollectiveLibrary::None;
}

CollectiveSteps
CollectiveSteps::count(const std::vector<CollectiveNodes> &nodes,
                       int64_t numNodes) {
  CollectiveSteps steps;
  // What messages go between: islands, and nodes without a library.
  int64_t parts = 0;
  bool reachesNeighbors = false;
  for (CollectiveLibrary library :
       {CollectiveLibrary::NCCL, CollectiveLibrary::RCCL}) {
    int64_t ranks = 0, ofIsland = 0;
    for (const CollectiveNodes &each : nodes)
      if (each.library == library) {
        ranks += each.nodes * each.ranksPerNode;
        ofIsland += each.nodes;
      }
    if (ranks == 0)
      continue;
    ++parts;
    // Islands go on at the same time.
    steps.inside = std::max(steps.inside, ranks - ofIsland);
    steps.between = std::max(steps.between, ofIsland - 1);
  }
  for (const CollectiveNodes &each : nodes)
    if (each.library == CollectiveLibrary::None) {
      parts += each.nodes;
      reachesNeighbors |= each.ranksPerNode > 1;
    }
  if (parts > 1 && numNodes > 1)
    ++steps.between;
  if (reachesNeighbors)
    steps.inside = std::max<int64_t>(steps.inside, 1);
  if (parts > 1 && numNodes == 1)
    ++steps.inside;
  return steps;
}

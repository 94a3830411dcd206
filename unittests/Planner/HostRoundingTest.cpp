//===- HostRoundingTest.cpp - What rounding takes beside GPUs -------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/HostRounding.h"
#include "CollectiveTesting.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

constexpr LossyWires blocks = {WireFormat::I8, std::nullopt};

/// Nodes of two hosts, and of two GPUs.
ClusterView makeMixedCluster() {
  ClusterView cluster = makeCluster({2, 2});
  cluster.types[0].target = "host:avx2-f32";
  cluster.types.push_back(cluster.types[0]);
  cluster.types[1].target = "cuda:sm_80";
  cluster.ranks[2].type = cluster.ranks[3].type = 1;
  cluster.links[{0, 1}] = {0.5, 1e6};
  return cluster;
}

double getSecondsPerByte(const ClusterView &cluster, int from, int to) {
  return 1 / cluster.findLink(from, to)->bandwidth;
}

TEST(HostRoundingTest, linksOfGPUsTakeLonger) {
  ClusterView exact = makeMixedCluster(), view = withWires(exact, blocks);
  EXPECT_TRUE(view.wires == blocks);
  EXPECT_EQ(getSecondsPerByte(view, 0, 0), getSecondsPerByte(exact, 0, 0));
  double copies = hostCopySeconds + hostAdditionSeconds;
  EXPECT_DOUBLE_EQ(getSecondsPerByte(view, 1, 1),
                   getSecondsPerByte(exact, 1, 1) + copies / 4);
  EXPECT_DOUBLE_EQ(getSecondsPerByte(view, 0, 1),
                   getSecondsPerByte(exact, 0, 1) +
                       (copies + hostRoundingSeconds) /
                           getElementBytes(WireFormat::I8));
  EXPECT_EQ(view.findLink(0, 1)->latency, exact.findLink(0, 1)->latency);
}

TEST(HostRoundingTest, nothingIsSlowerTwiceOrWithoutGPUs) {
  ClusterView exact = makeMixedCluster(), view = withWires(exact, blocks);
  EXPECT_EQ(getSecondsPerByte(withWires(view, blocks), 0, 1),
            getSecondsPerByte(view, 0, 1));
  EXPECT_EQ(getSecondsPerByte(withWires(exact, {}), 1, 1),
            getSecondsPerByte(exact, 1, 1));
  for (ClusterRank &rank : exact.ranks)
    rank.type = 0;
  EXPECT_EQ(getSecondsPerByte(withWires(exact, blocks), 0, 1),
            getSecondsPerByte(exact, 0, 1));
}

// Searches take parts of clusters, which round as the whole does.
TEST(HostRoundingTest, partsOfAClusterRound) {
  ClusterView view = withWires(makeMixedCluster(), blocks);
  EXPECT_TRUE(takeRanks(view, {1, 1, 1, 0})->wires == blocks);
}

} // namespace

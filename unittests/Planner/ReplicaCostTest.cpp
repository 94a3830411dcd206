//===- ReplicaCostTest.cpp - Collectives of shard groups ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/ReplicaCost.h"
#include "CollectiveTesting.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

using Numbers = std::vector<int64_t>;

TEST(ReplicaCostTest, groupsAreInNodesOrOfWholeNodes) {
  auto list = [](const std::vector<int> &sizes) {
    return ReplicaCost::list(makeCluster(sizes).ranks);
  };
  EXPECT_EQ(list({8, 8, 8, 8}), (Numbers{2, 4, 8, 16}));
  EXPECT_EQ(list({4, 4, 4}), (Numbers{3, 6}));
  EXPECT_EQ(list({8, 4}), (Numbers{3, 6}));
  EXPECT_EQ(list({2, 1, 2, 1}), (Numbers{2}));
  EXPECT_EQ(list({3, 3}), (Numbers{2}));
  EXPECT_EQ(list({1, 2, 1}), Numbers());
  EXPECT_EQ(list({1, 1}), Numbers());
  EXPECT_EQ(list({4}), (Numbers{2}));
}

// What crosses between nodes is added up, and each place's part of it is sent
// by two ranks of a node: with 2 * 3/4 of the bytes of a shard each, 100 of
// 200.
TEST(ReplicaCostTest, peersShareTheLinkOfTheirNode) {
  ClusterView cluster = makeCluster({2, 2, 2, 2});
  ReplicaCost cost(cluster, cluster.ranks, 4);
  Numbers bounds = {0, 100, 200};
  for (const auto &half :
       {cost.reduceShards("r", bounds, 4), cost.gatherShards("g", bounds, 4)}) {
    EXPECT_EQ(half.latency, 0.5);
    EXPECT_EQ(getUses(half), (std::vector<double>{0, 0, 2 * 75 * 4 / 1024.0,
                                                  2 * 75 * 4 / 1024.0}));
  }
  // Nothing else crosses.
  EXPECT_EQ(cost.allGather("g", bounds, 4).latency, 0.25);
  EXPECT_EQ(getUses(cost.allGather("g", bounds, 2)),
            (std::vector<double>{200.0 / 8192, 200.0 / 8192, 0, 0}));
  EXPECT_EQ(getUses(cost.reduceScatter("g", bounds, 4)),
            (std::vector<double>{400.0 / 8192, 400.0 / 8192, 0, 0}));
}

// Groups of two nodes: half of the peers are on each node.
TEST(ReplicaCostTest, groupsOfSeveralNodes) {
  ClusterView cluster = makeCluster({2, 2, 2, 2});
  ReplicaCost cost(cluster, cluster.ranks, 2);
  Numbers bounds = {0, 50, 100, 150, 200};
  EXPECT_EQ(
      getUses(cost.reduceShards("r", bounds, 4)),
      (std::vector<double>{0, 0, 2 * 25 * 4 / 1024.0, 2 * 25 * 4 / 1024.0}));
  std::vector<ClusterRank> first(cluster.ranks.begin(),
                                 cluster.ranks.begin() + 4);
  CollectiveCost group(cluster, first);
  EXPECT_EQ(getUses(cost.allGather("g", bounds, 4)),
            getUses(group.allGather("g", bounds, 4)));
}

// All wait for the group with the slowest links.
TEST(ReplicaCostTest, theSlowestGroupDecides) {
  ClusterView cluster = makeCluster({2, 2});
  cluster.links[{1, 1}] = LinkSpeed{4, 64};
  ReplicaCost cost(cluster, cluster.ranks, 2);
  auto gather = cost.allGather("g", {0, 100, 200}, 4);
  EXPECT_EQ(gather.latency, 4);
  EXPECT_EQ(getUses(gather),
            (std::vector<double>{400.0 / 64, 400.0 / 64, 0, 0}));
}

// On equal nodes that are a group each, replicas send as much between nodes in
// an iteration as one group does in the reductions and gathers of gradients.
TEST(ReplicaCostTest, crossesAsMuchAsAnAllReduce) {
  ClusterView cluster = makeCluster({4, 4, 4});
  ReplicaCost cost(cluster, cluster.ranks, 3);
  CollectiveCost all(cluster, cluster.ranks);
  constexpr int64_t elements = 12000;
  double sum = getUses(cost.reduceShards("", shardEqually(elements, 4).bounds,
                                         4))[CollectiveCost::NodeOut];
  double whole = getUses(all.reduceScatter(
      "", shardEqually(elements, 12).bounds, 4))[CollectiveCost::NodeOut];
  EXPECT_DOUBLE_EQ(sum, whole);
}

} // namespace

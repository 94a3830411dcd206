//===- CollectiveCostTest.cpp - What a collective needs of links ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/CollectiveCost.h"
#include "CollectiveTesting.h"
#include "Poplar/Planner/Cluster/CollectiveLatency.h"
#include "Poplar/Planner/Zero/ShardBounds.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace poplar;
using namespace poplar::test;

namespace {

TEST(CollectiveCostTest, twoRanksOfANode) {
  ClusterView cluster = makeCluster({2});
  CollectiveCost cost(cluster, cluster.ranks);
  // 100 elements of rank 0, 28 of rank 1.
  auto gather = cost.allGather("g", {0, 100, 128}, 4);
  EXPECT_EQ(gather.name, "g");
  EXPECT_EQ(gather.latency, 0.25);
  EXPECT_EQ(getUses(gather),
            (std::vector<double>{400.0 / 8192, 400.0 / 8192, 0, 0}));
  auto reduce = cost.reduceScatter("r", {0, 100, 128}, 2);
  EXPECT_EQ(getUses(reduce),
            (std::vector<double>{200.0 / 8192, 200.0 / 8192, 0, 0}));
}

// With three ranks, one sends its shard twice and gets the others.
TEST(CollectiveCostTest, overheadOfWhatIsSentAndReceived) {
  ClusterView cluster = makeCluster({3});
  cluster.defaultInside->overhead = 0.5;
  CollectiveCost cost(cluster, cluster.ranks);
  EXPECT_EQ(cost.allGather("g", {0, 10, 20, 60}, 4).overhead,
            (20 + 2 * 40) * 4 * 0.5);
  cluster.defaultInside->overhead = 0;
  cluster.defaultBetween->overhead = 0.5;
  EXPECT_EQ(CollectiveCost(cluster, cluster.ranks)
                .allGather("g", {0, 10, 20, 60}, 4)
                .overhead,
            0);
}

// Slices cross to the other node once, and a leader passes them on.
TEST(CollectiveCostTest, twoLevels) {
  ClusterView cluster = makeCluster({2, 1});
  CollectiveCost cost(cluster, cluster.ranks);
  auto gather = cost.allGather("g", {0, 10, 30, 70}, 1);
  EXPECT_EQ(gather.latency, 0.75);
  // Rank 0 sends its 10 and, as slice 2 is of an even number, the 40 of rank 2
  // to rank 1, which sends its own 20. Node 0 sends 30, node 1 40.
  EXPECT_EQ(getUses(gather), (std::vector<double>{50.0 / 8192, 50.0 / 8192,
                                                  40.0 / 1024, 40.0 / 1024}));
  auto reduce = cost.reduceScatter("r", {0, 10, 30, 70}, 1);
  EXPECT_EQ(getUses(reduce), getUses(gather));
  // What crosses in a byte an element, and has four inside of a node.
  auto lossy = cost.reduceScatter("l", {0, 10, 30, 70}, 1, 4);
  EXPECT_EQ(getUses(lossy), (std::vector<double>{200.0 / 8192, 200.0 / 8192,
                                                 40.0 / 1024, 40.0 / 1024}));
}

TEST(CollectiveCostTest, aloneNothingIsSent) {
  ClusterView cluster = makeCluster({1});
  CollectiveCost cost(cluster, {{0, 0}});
  EXPECT_EQ(cost.allGather("g", {0, 100}, 4).seconds(), 0);
  EXPECT_EQ(cost.exchange("e", 16).seconds(), 0);
}

// Links of their own, slower in one direction; node 1 has no rank in the job.
TEST(CollectiveCostTest, ownLinks) {
  ClusterView cluster = makeCluster({1, 1, 1, 1});
  cluster.links[{0, 2}] = {2, 512};
  cluster.links[{2, 0}] = {1, 2048};
  cluster.links[{1, 3}] = {9, 1};
  CollectiveCost cost(cluster, {{0, 0}, {2, 0}, {3, 0}});
  auto gather = cost.allGather("g", {0, 100, 120, 130}, 1);
  EXPECT_EQ(gather.latency, 2);
  std::vector<double> uses = getUses(gather);
  EXPECT_DOUBLE_EQ(uses[CollectiveCost::NodeOut], 100.0 / 512 + 100.0 / 1024);
  EXPECT_DOUBLE_EQ(uses[CollectiveCost::NodeIn], 100.0 / 512 + 10.0 / 1024);
  // Rank 0 gets its slices from the others: 100 from each.
  uses = getUses(cost.reduceScatter("r", {0, 100, 120, 130}, 1));
  EXPECT_DOUBLE_EQ(uses[CollectiveCost::NodeIn], 100.0 / 2048 + 100.0 / 1024);
  // Rank 2 sends 100 to rank 0, and 20 to rank 1.
  EXPECT_DOUBLE_EQ(uses[CollectiveCost::NodeOut], 120.0 / 1024);
}

// Equal shards on equal nodes: the closed form in the header.
TEST(CollectiveCostTest, equalShardsMatchClosedForm) {
  for (int numNodes : {2, 3, 8})
    for (int size : {1, 2, 4}) {
      ClusterView cluster = makeCluster(std::vector<int>(numNodes, size));
      int64_t ranks = numNodes * size, elements = ranks * 48;
      CollectiveCost cost(cluster, cluster.ranks);
      auto gather =
          cost.allGather("g", shardEqually(elements, ranks).bounds, 4);
      std::vector<double> uses = getUses(gather);
      double bytes = 4.0 * static_cast<double>(elements);
      double between = (numNodes - 1.0) / numNodes * bytes / 1024,
             inside = (size - 1.0) / size * bytes / 8192;
      EXPECT_NEAR(uses[CollectiveCost::NodeOut], between, 1e-9);
      EXPECT_NEAR(uses[CollectiveCost::NodeIn], between, 1e-9);
      EXPECT_NEAR(uses[CollectiveCost::DeviceOut], inside, 1e-9);
      EXPECT_NEAR(uses[CollectiveCost::DeviceIn], inside, 1e-9);
    }
}

// Twice the latency where slices go between nodes and on inside, however many
// ranks there are; around rings, one of each rank that waits for another.
TEST(CollectiveCostTest, latencyGrowsWithTheRanksOfARing) {
  for (int size : {1, 2, 4, 8}) {
    ClusterView cluster = makeCluster({size, size, size});
    auto getLatency = [&] {
      return CollectiveCost(cluster, cluster.ranks).exchange("", 1).latency;
    };
    EXPECT_EQ(getLatency(), 0.5 + (size > 1 ? 0.25 : 0));
    cluster.types[0].target = "cuda:sm_80";
    EXPECT_EQ(getLatency(), 2 * 0.5 + 3 * (size - 1) * 0.25);
  }
}

// A ring of the GPUs of two nodes, of which hosts get slices from a leader.
TEST(CollectiveCostTest, latencyOfUnlikeLibraries) {
  constexpr auto None = CollectiveLibrary::None, NCCL = CollectiveLibrary::NCCL,
                 RCCL = CollectiveLibrary::RCCL;
  struct Case {
    std::vector<CollectiveNodes> nodes;
    int64_t numNodes, inside, between;
  } cases[] = {
      {{{None, 1, 1}}, 1, 0, 0},
      {{{NCCL, 1, 1}}, 1, 0, 0},
      {{{None, 1, 8}}, 1, 1, 0},
      {{{NCCL, 1, 8}}, 1, 7, 0},
      {{{NCCL, 4, 8}}, 4, 28, 3},
      {{{None, 4, 8}}, 4, 1, 1},
      {{{NCCL, 2, 4}, {None, 2, 1}}, 4, 6, 2},
      {{{NCCL, 2, 4}, {RCCL, 3, 2}}, 5, 6, 3},
      {{{NCCL, 1, 4}, {None, 1, 2}}, 1, 4, 0},
  };
  for (const Case &it : cases) {
    CollectiveSteps steps = CollectiveSteps::count(it.nodes, it.numNodes);
    EXPECT_EQ(steps.inside, it.inside) << &it - cases;
    EXPECT_EQ(steps.between, it.between) << &it - cases;
  }
  EXPECT_EQ(getCollectiveLibrary("cuda:sm_80"), NCCL);
  EXPECT_EQ(getCollectiveLibrary("hip:gfx90a"), RCCL);
  EXPECT_EQ(getCollectiveLibrary("host"), None);
}

/// A collective message by message, as runtime/comm sends them.
std::vector<double> sendMessages(const ClusterView &cluster,
                                 const std::vector<int> &nodes,
                                 const std::vector<int64_t> &bounds,
                                 bool reduces) {
  int ranks = static_cast<int>(nodes.size());
  std::vector<double> deviceOut(ranks), deviceIn(ranks),
      nodeOut(cluster.nodes.size()), nodeIn(cluster.nodes.size());
  auto getLeader = [&](int node, int slice) {
    std::vector<int> members;
    for (int rank = 0; rank < ranks; ++rank)
      if (nodes[rank] == node)
        members.push_back(rank);
    return nodes[slice] == node ? slice : members[slice % members.size()];
  };
  for (int slice = 0; slice < ranks; ++slice)
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == slice)
        continue;
      int leader = getLeader(nodes[rank], slice);
      int from = rank == leader ? slice : leader, to = rank;
      if (reduces)
        std::swap(from, to);
      double seconds = static_cast<double>(bounds[slice + 1] - bounds[slice]) /
                       cluster.findLink(nodes[from], nodes[to])->bandwidth;
      bool inside = nodes[from] == nodes[to];
      (inside ? deviceOut[from] : nodeOut[nodes[from]]) += seconds;
      (inside ? deviceIn[to] : nodeIn[nodes[to]]) += seconds;
    }
  std::vector<double> busiest;
  for (const auto *ports : {&deviceOut, &deviceIn, &nodeOut, &nodeIn})
    busiest.push_back(*std::max_element(ports->begin(), ports->end()));
  return busiest;
}

TEST(CollectiveCostTest, matchesMessages) {
  std::mt19937 random(1);
  auto pick = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<int> sizes(1 + pick(5));
    for (int &size : sizes)
      size = 1 + pick(4);
    ClusterView cluster = makeCluster(sizes);
    for (int link = pick(6); link > 0; --link) {
      int count = static_cast<int>(sizes.size());
      cluster.links[{pick(count), pick(count)}] = {0.1, 100.0 + pick(9000)};
    }
    // Some ranks are not in the job.
    std::vector<int> nodes;
    std::vector<ClusterRank> ranks;
    for (const ClusterRank &rank : cluster.ranks)
      if (pick(4) || nodes.empty()) {
        nodes.push_back(rank.node);
        ranks.push_back(rank);
      }
    std::vector<int64_t> bounds = {0};
    for (size_t i = 0; i < nodes.size(); ++i)
      bounds.push_back(bounds.back() + pick(3) * pick(1000));
    CollectiveCost cost(cluster, ranks);
    for (bool reduces : {false, true}) {
      auto collective = reduces ? cost.reduceScatter("", bounds, 1)
                                : cost.allGather("", bounds, 1);
      std::vector<double> uses = getUses(collective),
                          expected =
                              sendMessages(cluster, nodes, bounds, reduces);
      for (size_t port = 0; port < uses.size(); ++port)
        EXPECT_NEAR(uses[port], expected[port], 1e-9)
            << "trial " << trial << ", port " << port;
    }
  }
}

} // namespace

//===- PlanSearchTest.cpp - From a cluster to a plan ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Oracle.h"
#include "Poplar/Planner/Cluster/ClusterEdit.h"
#include "Poplar/Planner/Zero/ZeroBound.h"
#include "RandomCluster.h"
#include <cmath>
#include <ctime>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>

using namespace poplar;
using namespace poplar::test;

namespace {

/// Visits every choice of what `choices` allows for a stage and a sharding, as
/// a cluster of the devices that take part: every set of devices. Of a node's
/// devices of a type, which are all alike, the first.
template <typename Visitor>
void forEachChoice(const ClusterView &cluster, const PlanChoices &choices,
                   int stage, Visitor visit) {
  std::vector<int> counts = cluster.countRanks();
  size_t sets = size_t(1) << cluster.ranks.size();
  auto chooseRanks = [&](ClusterView view) {
    for (size_t set = choices.leaveOut ? 1 : sets - 1; set < sets; ++set) {
      view.ranks.clear();
      std::set<std::pair<int, int>> without;
      bool hasFirst = true;
      for (size_t rank = 0; rank < cluster.ranks.size(); ++rank) {
        const ClusterRank &device = cluster.ranks[rank];
        if (!(set >> rank & 1))
          without.insert({device.node, device.type});
        else if (without.count({device.node, device.type}))
          hasFirst = false;
        else
          view.ranks.push_back(device);
      }
      if (hasFirst)
        visit(view);
    }
  };
  std::function<void(size_t, ClusterView)> choose = [&](size_t type,
                                                        ClusterView view) {
    if (type == counts.size()) {
      chooseRanks(view);
      return;
    }
    for (RecomputePolicy policy :
         {RecomputePolicy::Keep, RecomputePolicy::Attention,
          RecomputePolicy::Unit}) {
      ClusterView other = view;
      other.types[type].recompute = policy;
      if (counts[type] == 0 ||
          (choices.chooseRecompute || policy == cluster.types[type].recompute))
        if (counts[type] == 0 ||
            other.findProfile(static_cast<int>(type), stage))
          choose(type + 1, other);
      if (counts[type] == 0)
        break;
    }
  };
  choose(0, cluster);
}

/// Whether the ranks make so many shard groups, each in one node or of all
/// ranks of its nodes.
bool makeGroups(const std::vector<ClusterRank> &ranks, size_t replicas) {
  size_t size = ranks.size() / replicas;
  if (size < 2 || ranks.size() % replicas != 0)
    return false;
  std::map<int, std::set<size_t>> groupsOn, nodesOf;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    groupsOn[ranks[rank].node].insert(rank / size);
    nodesOf[static_cast<int>(rank / size)].insert(ranks[rank].node);
  }
  for (const ClusterRank &rank : ranks)
    for (size_t group : groupsOn[rank.node])
      if (groupsOn[rank.node].size() > 1 &&
          nodesOf[static_cast<int>(group)].size() > 1)
        return false;
  return true;
}

/// The least time of all choices for a stage and sharding; `solve` gives that
/// of a problem.
template <typename Solver>
double tryAll(const ClusterView &cluster, const ModelFacts &model,
              const PlanChoices &choices, int stage, Sharding sharding,
              Solver solve) {
  double least = HUGE_VAL;
  forEachChoice(cluster, choices, stage, [&](const ClusterView &view) {
    std::string error;
    std::vector<double> state(view.ranks.size(), 1.0);
    if (sharding == Sharding::Memory) {
      auto shares = shareStateByMemory(view, model, stage, error);
      if (!shares)
        return;
      state = *shares;
    }
    bool isReplicated = sharding == Sharding::Replicated;
    size_t most = isReplicated ? view.ranks.size() : 1;
    for (size_t replicas = isReplicated ? 2 : 1; replicas <= most; ++replicas) {
      if (isReplicated && !makeGroups(view.ranks, replicas))
        continue;
      auto problem =
          makeBatchProblem(view, model, stage, choices.globalBatch, state,
                           error, static_cast<int64_t>(replicas));
      if (problem)
        least = std::min(least, solve(*problem));
    }
  });
  return least;
}

void compareWithAll(std::mt19937 &random, bool isBrute) {
  RandomCluster test = makeRandomCluster(random);
  PlanChoices choices;
  choices.globalBatch = 1 + random() % 20;
  choices.leaveOut = random() % 4 > 0;
  choices.chooseRecompute = random() % 4 > 0;
  PlanSearchResult result =
      searchPlans(test.cluster, test.model, exact(), choices);
  ASSERT_EQ(result.untried.describe(), "");
  double leastOfAll = HUGE_VAL;
  auto solve = [&](const BatchProblem &problem) {
    std::string error;
    return isBrute ? bruteForce(problem)
                   : exact().solve(problem, error)->seconds;
  };
  std::set<int> unreplicated = {1, 2, 3};
  for (const PlanOutcome &outcome : result.outcomes) {
    if (outcome.sharding == Sharding::Replicated)
      unreplicated.erase(outcome.stage);
    double least = tryAll(test.cluster, test.model, choices, outcome.stage,
                          outcome.sharding, solve);
    leastOfAll = std::min(leastOfAll, least);
    // By memory there are more shares than the ones tried here.
    if (outcome.sharding != Sharding::Memory || std::isfinite(least)) {
      ASSERT_EQ(outcome.best.has_value(), std::isfinite(least))
          << outcome.stage << outcome.error;
    }
    ASSERT_EQ(outcome.error.empty(), outcome.best.has_value());
    if (!outcome.best)
      continue;
    const PlanCandidate &best = *outcome.best;
    // In which order ranks are, and who gets what is left over by rounding
    // shards to whole elements, is not searched.
    double tolerance = outcome.sharding == Sharding::Memory ? 4e-3 : 1e-11;
    ASSERT_LE(best.allocation.seconds, least * (1 + tolerance));
    if (outcome.sharding != Sharding::Memory) {
      ASSERT_GE(best.allocation.seconds, least * (1 - tolerance));
    }
    ASSERT_EQ(best.allocation.verify(best.problem), "");
    ASSERT_EQ(best.ranks.size(), best.state.size());
    int64_t dropped = 0;
    for (const auto &type : best.allocation.types)
      dropped += type.dropped;
    ASSERT_EQ(best.ranks.size() + dropped, test.cluster.ranks.size());
    ASSERT_TRUE(choices.leaveOut || dropped == 0);
  }
  for (int stage : unreplicated)
    ASSERT_FALSE(std::isfinite(tryAll(test.cluster, test.model, choices, stage,
                                      Sharding::Replicated, solve)))
        << stage;
  if (std::isfinite(leastOfAll)) {
    ASSERT_TRUE(result.best());
    ASSERT_LE(result.best()->allocation.seconds, leastOfAll * (1 + 4e-3));
    ASSERT_LE(result.lowerBound, leastOfAll * (1 + 4e-3));
    ASSERT_LE(result.lowerBound, result.best()->allocation.seconds);
    // Without a search, but of the right size.
    double bound = findZeroBound(test.cluster, test.model, choices);
    ASSERT_LE(bound, leastOfAll * (1 + 1e-9));
    ASSERT_GE(bound, leastOfAll / 20);
  }
}

TEST(PlanSearchTest, FindsTheLeastOfEverything) {
  std::mt19937 random(21);
  for (int i = 0; i < 2000 && !HasFatalFailure(); ++i)
    compareWithAll(random, false);
}

TEST(PlanSearchTest, FindsTheLeastByBruteForce) {
  std::mt19937 random(22);
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i)
    compareWithAll(random, true);
}

/// Two nodes of one type each, and a third that is far.
ClusterView threeNodes() {
  ClusterView cluster;
  cluster.types = {makeDeviceType("a", 100000), makeDeviceType("b", 100000)};
  cluster.nodes = {{"far", 0, 2}, {"x", 2, 2}, {"y", 4, 1}};
  cluster.ranks = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}};
  cluster.defaultInside = LinkSpeed{0, 1e9};
  cluster.defaultBetween = LinkSpeed{0, 1e6};
  for (auto ends : {std::pair(1, 2), std::pair(2, 1)})
    cluster.links[ends] = LinkSpeed{0, 1e9};
  return cluster;
}

TEST(PlanSearchTest, OrderOfNodesDoesNotMatter) {
  // The four devices of a server, and one more behind a slow link: whichever
  // comes first, the server's work together.
  double seconds[2];
  for (bool serverFirst : {false, true}) {
    ClusterView cluster;
    cluster.types = {makeDeviceType("a", 1000000)};
    cluster.nodes = {{"desk", 0, 1}, {"server", 1, 4}};
    cluster.ranks = {{0, 0}, {1, 0}, {1, 0}, {1, 0}, {1, 0}};
    if (serverFirst) {
      cluster.nodes = {{"server", 0, 4}, {"desk", 4, 1}};
      cluster.ranks = {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 0}};
    }
    cluster.defaultInside = LinkSpeed{1e-5, 1e9};
    cluster.defaultBetween = LinkSpeed{1e-5, 10};
    for (int stage = 0; stage < 4; ++stage)
      cluster.profiles.push_back(
          makeDeviceProfile(0, stage, RecomputePolicy::Keep));
    ModelFacts model;
    model.parameters.trained = model.firstBucket = model.lastBucket = 1000;
    model.buckets = 1;
    model.gatheredForward = model.gatheredBackward = model.reduced = {1, 1000};
    PlanChoices choices;
    choices.globalBatch = 8;
    PlanSearchResult result = searchPlans(cluster, model, exact(), choices);
    ASSERT_TRUE(result.best());
    EXPECT_EQ(result.best()->ranks.size(), 4u);
    seconds[serverFirst] = result.best()->allocation.seconds;
  }
  EXPECT_DOUBLE_EQ(seconds[0], seconds[1]);
}

TEST(PlanSearchTest, WhatIsFarIsLeftOutFirst) {
  std::vector<int> kept;
  auto smaller = resizeCluster(threeNodes(), {2, 1}, &kept);
  ASSERT_TRUE(smaller);
  EXPECT_EQ(kept, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(smaller->ranks.size(), 3u);
  EXPECT_EQ(smaller->nodes[0].numRanks, 0);
  EXPECT_EQ(smaller->nodes[2].firstRank, 2);
  // Where all are as near, the last.
  ClusterView flat = threeNodes();
  flat.links.clear();
  smaller = resizeCluster(flat, {2, 1}, &kept);
  EXPECT_EQ(kept, (std::vector<int>{0, 1, 2}));
}

TEST(PlanSearchTest, OneMoreIsBesideTheLast) {
  std::vector<int> kept;
  auto larger = resizeCluster(threeNodes(), {4, 2}, &kept);
  ASSERT_TRUE(larger);
  EXPECT_EQ(kept, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(larger->ranks.size(), 6u);
  EXPECT_EQ(larger->nodes[2].numRanks, 2);
  EXPECT_EQ(larger->ranks.back().type, 0);
  // There is no place for a device of a type that no node has.
  ClusterView cluster = threeNodes();
  cluster.types.push_back(makeDeviceType("c", 1));
  EXPECT_FALSE(resizeCluster(cluster, {3, 2, 1}));
  EXPECT_TRUE(resizeCluster(cluster, {3, 2, 0}));
}

TEST(PlanSearchTest, NothingIsLeftOutForWantOfAProfile) {
  ClusterView cluster = threeNodes();
  for (int stage = 0; stage < 4; ++stage)
    cluster.profiles.push_back(
        makeDeviceProfile(0, stage, RecomputePolicy::Keep));
  ModelFacts model;
  model.parameters.trained = 1000;
  PlanChoices choices;
  choices.globalBatch = 8;
  PlanSearchResult result = searchPlans(cluster, model, exact(), choices);
  EXPECT_FALSE(result.best());
  for (const PlanOutcome &outcome : result.outcomes)
    EXPECT_EQ(outcome.error.rfind("device type 'b' has no profile", 0), 0u)
        << outcome.error;
  // Nor for want of what it says of memory, where that is asked for.
  for (int stage = 0; stage < 4; ++stage) {
    cluster.profiles.push_back(
        makeDeviceProfile(1, stage, RecomputePolicy::Keep));
    cluster.profiles.back().memory.reset();
  }
  choices.shardings = {Sharding::Memory};
  choices.stages = {2};
  result = searchPlans(cluster, model, exact(), choices);
  ASSERT_EQ(result.outcomes.size(), 1u);
  EXPECT_EQ(result.outcomes[0].error,
            "profile of 'b' has no memory figures, by which the state is to "
            "be shared");
}

TEST(PlanSearchTest, ChoosesWhatIsRecomputed) {
  // Keeping takes 1 s a sample, of which one fits; recomputing 1.1 s, and 8
  // fit; each step takes 1 s more.
  ClusterView cluster;
  cluster.types = {makeDeviceType("a", 20000)};
  cluster.nodes = {{"n", 0, 1}};
  cluster.ranks = {{0, 0}};
  cluster.profiles = {makeDeviceProfile(0, 0, RecomputePolicy::Keep),
                      makeDeviceProfile(0, 0, RecomputePolicy::Unit)};
  cluster.profiles[0].seconds = {2, 9};
  cluster.profiles[0].memory = DeviceProfile::Memory{16000, 4000};
  cluster.profiles[1].seconds = {2.1, 9.8};
  cluster.profiles[1].memory = DeviceProfile::Memory{16000, 500};
  ModelFacts model;
  model.parameters.trained = 1000;
  PlanChoices choices;
  choices.stages = {0};
  choices.globalBatch = 8;
  PlanSearchResult result = searchPlans(cluster, model, exact(), choices);
  ASSERT_TRUE(result.best());
  EXPECT_EQ(result.best()->recompute[0], RecomputePolicy::Unit);
  EXPECT_DOUBLE_EQ(result.best()->allocation.seconds, 9.8);
  choices.chooseRecompute = false;
  result = searchPlans(cluster, model, exact(), choices);
  EXPECT_EQ(result.best()->recompute[0], RecomputePolicy::Keep);
  EXPECT_DOUBLE_EQ(result.best()->allocation.seconds, 16);
  // For one sample it is better to keep.
  choices.chooseRecompute = true;
  choices.globalBatch = 1;
  result = searchPlans(cluster, model, exact(), choices);
  EXPECT_EQ(result.best()->recompute[0], RecomputePolicy::Keep);
}

/// Times the search for as many devices of 8 types, with links of two speeds.
double secondsToSearch(int64_t devices, bool recomputes,
                       int64_t fixed = 1'124'000'000'000) {
  ClusterView cluster;
  ModelFacts model;
  model.parameters.trained = 70'000'000'000;
  model.buckets = 82;
  model.largestBucket = 1'000'000'000;
  model.firstBucket = model.lastBucket = 500'000'000;
  model.gatheredForward =
      model.reduced = {model.buckets, model.countElements()};
  model.gatheredBackward = {80, 69'000'000'000};
  for (int type = 0; type < 8; ++type) {
    cluster.types.push_back(
        makeDeviceType("t" + std::to_string(type), (40ll + 20 * type) << 30));
    for (int64_t node = 0; node < devices / 64; ++node) {
      auto first = static_cast<int>(cluster.ranks.size());
      cluster.nodes.push_back({"n", first, 8});
      for (int i = 0; i < 8; ++i)
        cluster.ranks.push_back(
            {static_cast<int>(cluster.nodes.size()) - 1, type});
    }
    for (int stage = 0; stage < 4; ++stage)
      for (RecomputePolicy policy :
           {RecomputePolicy::Keep, RecomputePolicy::Unit}) {
        bool keeps = policy == RecomputePolicy::Keep;
        if (!keeps && !recomputes)
          continue;
        DeviceProfile profile = makeDeviceProfile(type, stage, policy);
        profile.microBatches = {1, 2, 4, 8, 16, 32, 64};
        profile.seconds.clear();
        for (int64_t b : profile.microBatches)
          profile.seconds.push_back((0.1 + 0.05 * type) * double(b + 1) *
                                    (keeps ? 1 : 1.3));
        profile.memory =
            DeviceProfile::Memory{fixed, int64_t(keeps ? 4 : 1) << 30};
        cluster.profiles.push_back(profile);
      }
  }
  cluster.defaultInside = LinkSpeed{3e-6, 200e9};
  cluster.defaultBetween = LinkSpeed{1e-5, 12e9};
  PlanChoices choices;
  choices.globalBatch = 1024;
  // The time is the processor's: others may keep it busy.
  std::clock_t start = std::clock();
  PlanSearchResult result = searchPlans(cluster, model, exact(), choices);
  double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_TRUE(result.best());
  return seconds;
}

TEST(PlanSearchTest, ManyDevices) {
  // Printed, with room for slow machines and sanitizers; bench/plan-batches
  // measures.
  for (int64_t devices : {128, 1024}) {
    double seconds = secondsToSearch(devices, false);
    double recompute = secondsToSearch(devices, true);
    std::printf("%lld devices: %.3f s, with recomputation %.3f s\n",
                static_cast<long long>(devices), seconds, recompute);
    // Small types cannot hold their share of this: a plan is found without.
    secondsToSearch(devices, false, 1'202'000'000'000);
    EXPECT_LT(seconds, 20);
    EXPECT_LT(recompute, 20);
  }
}

} // namespace

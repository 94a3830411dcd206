//===- LanesTest.cpp - Tests of unlike pipelines of a plan ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Plan/Lanes.h"
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace poplar;

namespace {

/// A plan of one group, whose pipelines have so many ranks each.
Plan makePlan(std::vector<int64_t> degrees, std::vector<int64_t> parts = {}) {
  Plan plan;
  Plan::Group &group = plan.groups.front();
  group.units = {0, 4};
  plan.ranks.resize(
      std::accumulate(degrees.begin(), degrees.end(), int64_t(0)));
  group.tensorDegrees = std::move(degrees);
  group.parts = std::move(parts);
  return plan;
}

TEST(Lanes, BatchGoesByWeights) {
  std::vector<RankShare> shares = sharePipelines(14, {3, 2, 1, 1}, 2, false);
  ASSERT_EQ(shares.size(), 4u);
  const RankShare expected[] = {{2, 3, 2}, {2, 2, 2}, {2, 1, 2}, {2, 1, 2}};
  for (size_t i = 0; i < shares.size(); ++i)
    EXPECT_TRUE(shares[i] == expected[i]) << i;
}

TEST(Lanes, RandomBatches) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<int64_t> weights(1 + random() % 6);
    bool sameSteps = random() % 2;
    for (int64_t &weight : weights)
      weight = sameSteps ? 1 : 1 + int64_t(random() % 9);
    auto sum = std::accumulate(weights.begin(), weights.end(), int64_t(0));
    int64_t samples = int64_t(weights.size()) + int64_t(random() % 200),
            microBatch = 1 + int64_t(random() % 8), given = 0;
    std::vector<RankShare> shares =
        sharePipelines(samples, weights, microBatch, sameSteps);
    for (size_t i = 0; i < shares.size(); ++i) {
      const RankShare &share = shares[i];
      double ideal = double(samples) * double(weights[i]) / double(sum);
      EXPECT_LT(std::abs(double(share.samples()) - ideal), 1);
      EXPECT_LE(share.microBatch, microBatch);
      EXPECT_LE(share.last, microBatch);
      EXPECT_GE(share.last, 0);
      if (sameSteps) {
        EXPECT_EQ(share.steps, shares[0].steps);
      }
      given += share.samples();
    }
    EXPECT_EQ(given, samples);
  }
}

TEST(Lanes, WholeUnitsAreBehindAllParts) {
  Plan plan = makePlan({1, 2, 1}, {3, 1});
  std::vector<Plan::Place> places = plan.getPlaces();
  ASSERT_EQ(places.size(), 4u);
  const int64_t pipelines[] = {0, 1, 1, 2}, positions[] = {2, 0, 1, 2};
  for (size_t rank = 0; rank < places.size(); ++rank) {
    EXPECT_EQ(places[rank].pipeline, pipelines[rank]) << rank;
    EXPECT_EQ(places[rank].position, positions[rank]) << rank;
  }
  const Plan::Group &group = plan.groups.front();
  EXPECT_TRUE(hasUnlikeDegrees(group));
  EXPECT_EQ(getPartsOfRanks(group, 0), std::vector<int64_t>({1}));
  EXPECT_EQ(getPartsOfRanks(group, 1), std::vector<int64_t>({3, 1}));
  // Where all compute whole units, there is but one position.
  for (const Plan::Place &place : makePlan({1, 1}).getPlaces())
    EXPECT_EQ(place.position, 0);
}

TEST(Lanes, WhatIsNotGenerated) {
  EXPECT_EQ(explainUnlikeDegrees(makePlan({1, 2, 1}).groups.front()), "");
  EXPECT_EQ(explainUnlikeDegrees(makePlan({2, 2}).groups.front()), "");
  EXPECT_NE(explainUnlikeDegrees(makePlan({1, 2, 4}).groups.front())
                .find("2 and 4 devices share units"),
            std::string::npos);
  Plan plan = makePlan({1, 2});
  plan.groups.front().zeroStage = 2;
  EXPECT_NE(explainUnlikeDegrees(plan.groups.front()).find("take stage 0 or 1"),
            std::string::npos);
}

TEST(Lanes, RanksHoldEqualShares) {
  ClusterView cluster;
  cluster.types.resize(1);
  cluster.types[0].name = "t";
  cluster.nodes.resize(1);
  cluster.nodes[0].name = "n";
  cluster.ranks.assign(3, ClusterRank{0, 0});
  StageRanks stage;
  stage.units = {0, 4};
  stage.zeroStage = 1;
  stage.ranks = {{0}, {1, 2}};
  Plan plan = writeStages(cluster, "stages", std::nullopt, {stage},
                          sharePipelines(4, {1, 1}, 1, false));
  // The first rank has a third of each half, the others two thirds of one.
  ASSERT_EQ(plan.ranks.size(), 3u);
  EXPECT_EQ(plan.ranks[0].state, 1);
  EXPECT_EQ(plan.ranks[1].state, 2);
  EXPECT_EQ(plan.ranks[2].state, 2);
  EXPECT_EQ(plan.groups.front().tensorDegrees, std::vector<int64_t>({1, 2}));
}

} // namespace

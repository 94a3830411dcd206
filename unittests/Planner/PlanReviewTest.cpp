//===- PlanReviewTest.cpp - All there is to say of a plan -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanReview.h"
#include "MetamorphicClusters.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

TEST(PlanReviewTest, FindsInAPlanWhatTheSearchPutThere) {
  std::mt19937 random(5);
  int reviewed = 0, leftOut = 0;
  for (int i = 0; i < 500; ++i) {
    // A model of many elements, so that rounding shards is no difference.
    RandomCluster test = makeUnevenCluster(random, 2, 3);
    PlanChoices choices;
    choices.globalBatch = 1 + random() % 20;
    std::string error;
    auto policy = makePolicy(i % 3 ? "exact" : "uniform", error);
    PlanSearchResult result =
        searchPlans(test.cluster, test.model, *policy, choices);
    if (!result.best())
      continue;
    ++reviewed;
    const PlanCandidate &best = *result.best();
    // What a type is to recompute is written with the type.
    for (size_t t = 0; t < best.recompute.size(); ++t)
      test.cluster.types[t].recompute = best.recompute[t];
    auto review = reviewPlan(test.cluster, test.model,
                             writePlan(test.cluster, best), error);
    ASSERT_TRUE(review) << error;
    const PlanCandidate &plan = review->plan;
    ASSERT_EQ(plan.ranks.size(), best.ranks.size());
    ASSERT_NEAR(plan.allocation.seconds, best.allocation.seconds,
                1e-9 * best.allocation.seconds);
    ASSERT_EQ(plan.allocation.verify(plan.problem), "");
    ASSERT_EQ(review->ranks.size(), plan.ranks.size());
    // Nothing is better than what was found among everything.
    ASSERT_EQ(review->advice, std::vector<std::string>()) << i;
    double state = 0;
    int64_t samples = 0;
    for (const PlanReview::Rank &rank : review->ranks) {
      state += rank.state;
      samples += rank.share.samples();
      ASSERT_TRUE(rank.memory);
      ASSERT_LE(rank.memory->peak, test.cluster.types[rank.type].memory);
      ASSERT_NE(rank.limit, PlanExplanation::Limit::Dropped);
    }
    ASSERT_NEAR(state, double(plan.replicas), 1e-12);
    ASSERT_EQ(samples, choices.globalBatch);
    leftOut += plan.ranks.size() < test.cluster.ranks.size();
  }
  EXPECT_GT(reviewed, 200);
  EXPECT_GT(leftOut, 20);
}

/// One fast and one slow device, which a plan by hand gives as much.
class HandWrittenPlanTest : public testing::Test {
protected:
  HandWrittenPlanTest() {
    cluster.types = {makeDeviceType("fast", 30000),
                     makeDeviceType("slow", 30000)};
    cluster.nodes = {{"n", 0, 2}};
    cluster.ranks = {{0, 0}, {0, 1}};
    cluster.defaultInside = LinkSpeed{0, 1e9};
    for (int stage = 0; stage < 4; ++stage) {
      cluster.profiles.push_back(
          makeDeviceProfile(0, stage, RecomputePolicy::Keep));
      cluster.profiles.push_back(
          makeDeviceProfile(1, stage, RecomputePolicy::Keep));
      cluster.profiles.back().seconds = {10, 80};
      cluster.profiles.back().isEstimate = true;
    }
    model.parameters.trained = 1000;
    plan.groups.front().zeroStage = 2;
    plan.globalBatch = 8;
    plan.policy = "mine";
    plan.ranks = {{"fast", "n", {4, 1, 4}, /*threads=*/1, /*state=*/1},
                  {"slow", "n", {4, 1, 4}, 1, 3}};
  }

  std::string refusal() {
    std::string error;
    EXPECT_FALSE(reviewPlan(cluster, model, plan, error));
    return error;
  }

  ClusterView cluster;
  ModelFacts model;
  Plan plan;
};

TEST_F(HandWrittenPlanTest, IsExplained) {
  std::string error;
  auto review = reviewPlan(cluster, model, plan, error);
  ASSERT_TRUE(review) << error;
  // 4000 and 12 000 bytes of the 12 000 sharded: a quarter is 3000.
  ASSERT_TRUE(review->ranks[0].memory);
  EXPECT_EQ(review->ranks[0].memory->fixed, 4000 + 3000);
  EXPECT_EQ(review->ranks[1].memory->fixed, 4000 + 9000);
  EXPECT_EQ(review->ranks[1].memory->peak, 4000 + 9000 + 4 * 1000);
  EXPECT_NEAR(review->plan.allocation.seconds, 40, 0.01);
  // All eight on the fast one take 8 s.
  ASSERT_FALSE(review->advice.empty());
  EXPECT_NE(review->advice[0].find(": 80."), std::string::npos)
      << review->advice[0];
  std::string text = formatReview(cluster, *review);
  EXPECT_NE(text.find("times of 'slow' are estimates"), std::string::npos);
  EXPECT_EQ(text.find("times of 'fast' are estimates"), std::string::npos);
  EXPECT_NE(text.find("the best by stage and sharding of the state "
                      "(everything was tried):\n  stage 0, equal: "),
            std::string::npos);
}

TEST_F(HandWrittenPlanTest, DevicesThatAreNotThereAreNamed) {
  plan.ranks.push_back({"fast", "n", {0, 1, 0}, 1});
  EXPECT_EQ(refusal(), "rank 2 is on a device of type 'fast' on node 'n', "
                       "which has no more of them");
  plan.ranks.back().type = "other";
  EXPECT_EQ(refusal(), "rank 2 is on a device of type 'other' on node 'n', "
                       "which has no more of them");
}

TEST_F(HandWrittenPlanTest, TooMuchIsRefused) {
  plan.ranks[0].share = {4, 1, 9};
  EXPECT_EQ(refusal(), "type 'fast' has a micro-batch of 9, but only 8 fit");
  plan.ranks[0].share = {4, 1, 5};
  EXPECT_EQ(refusal(), "shares add up to 9 samples, not 8");
}

TEST_F(HandWrittenPlanTest, DroppedTypesKeepTheirCurves) {
  plan.ranks.pop_back();
  plan.ranks[0].share = {8, 1, 8};
  std::string error;
  auto review = reviewPlan(cluster, model, plan, error);
  ASSERT_TRUE(review) << error;
  // The sum of both: 1 and 0.1 samples a second.
  EXPECT_NEAR(review->explanation.sumOfParts, 1.1, 1e-9);
  EXPECT_TRUE(review->explanation.whatIf[1].oneMore.has_value());
  EXPECT_FALSE(review->explanation.whatIf[1].oneLess.has_value());
  EXPECT_EQ(review->plan.allocation.types[1].dropped, 1);
  EXPECT_NE(formatReview(cluster, *review).find("dropped"), std::string::npos);
}

} // namespace

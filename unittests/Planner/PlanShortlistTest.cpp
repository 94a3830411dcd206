//===- PlanShortlistTest.cpp - Plans that are worth simulating ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanShortlist.h"
#include "Poplar/Planner/Zero/PlanReview.h"
#include "RandomCluster.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

std::unique_ptr<BatchPolicy> makePolicy(const std::string &name) {
  std::string error;
  return poplar::makePolicy(name, error);
}

/// A plan written out, to tell plans apart.
std::string describe(const ClusterView &cluster, const PlanCandidate &plan) {
  std::string text =
      std::to_string(plan.stage) + " " + std::to_string(plan.replicas);
  for (const Recomputation &recompute : plan.recompute)
    text += std::string(" ") + toString(recompute);
  for (const Plan::Rank &rank : writePlan(cluster, plan).ranks)
    text += "; " + rank.type + " " + rank.node + " " +
            std::to_string(rank.share.microBatch) + " " +
            std::to_string(rank.share.steps) + " " +
            std::to_string(rank.share.last) + " " + std::to_string(rank.state);
  return text;
}

class PlanShortlistTest : public testing::Test {
protected:
  /// On a random cluster; no plan may be there twice, and all must be sound.
  void run(std::mt19937 &random) {
    test = makeRandomCluster(random);
    choices = PlanChoices();
    choices.globalBatch = 1 + random() % 20;
    auto exact = makePolicy("exact");
    found = searchPlans(test.cluster, test.model, *exact, choices);
    plans = shortlistPlans(test.cluster, test.model, *exact, choices, found);
    std::vector<std::string> texts;
    for (const PlanCandidate &plan : plans) {
      EXPECT_EQ(plan.allocation.verify(plan.problem), "");
      EXPECT_EQ(plan.ranks.size(), plan.state.size());
      ClusterView view = test.cluster;
      for (size_t i = 0; i < view.types.size(); ++i)
        view.types[i].recompute = plan.recompute[i];
      std::string error;
      auto review = reviewPlan(view, test.model, writePlan(view, plan), error);
      ASSERT_TRUE(review) << error;
      EXPECT_NEAR(review->plan.allocation.seconds, plan.allocation.seconds,
                  1e-9 * plan.allocation.seconds);
      texts.push_back(describe(test.cluster, plan));
    }
    std::sort(texts.begin(), texts.end());
    EXPECT_EQ(std::adjacent_find(texts.begin(), texts.end()), texts.end());
  }

  RandomCluster test;
  PlanChoices choices;
  PlanSearchResult found;
  std::vector<PlanCandidate> plans;
};

TEST_F(PlanShortlistTest, TheBestIsFirst) {
  std::mt19937 random(31);
  int withPlan = 0;
  for (int i = 0; i < 200 && !HasFatalFailure(); ++i) {
    run(random);
    ASSERT_EQ(plans.empty(), found.best() == nullptr);
    if (plans.empty())
      continue;
    ++withPlan;
    double least = found.best()->allocation.seconds;
    EXPECT_NEAR(plans.front().allocation.seconds, least, 1e-11 * least);
    for (size_t p = 1; p < std::min<size_t>(plans.size(), 8); ++p)
      EXPECT_GE(plans[p].allocation.seconds * (1 + 1e-12),
                plans.front().allocation.seconds);
  }
  EXPECT_GT(withPlan, 100);
}

TEST_F(PlanShortlistTest, BaselinesAreThere) {
  std::mt19937 random(32);
  int compared = 0;
  for (int i = 0; i < 100 && !HasFatalFailure(); ++i) {
    run(random);
    std::vector<std::string> names = {"uniform", "poplar"};
    std::vector<int> counts = test.cluster.countRanks();
    for (size_t type = 0; type < counts.size(); ++type)
      if (counts[type])
        names.push_back("homogeneous:" + test.cluster.types[type].name);
    PlanChoices own = choices;
    own.shardings = {Sharding::Equal};
    own.leaveOut = false;
    for (const std::string &name : names) {
      auto policy = makePolicy(name);
      PlanSearchResult result =
          searchPlans(test.cluster, test.model, *policy, own);
      if (!result.best())
        continue;
      ++compared;
      std::string text = describe(test.cluster, *result.best());
      EXPECT_TRUE(std::any_of(plans.begin(), plans.end(),
                              [&](const PlanCandidate &plan) {
                                return describe(test.cluster, plan) == text;
                              }))
          << name << ": " << text;
    }
  }
  EXPECT_GT(compared, 100);
}

TEST_F(PlanShortlistTest, OnlyWhatWasAskedFor) {
  std::mt19937 random(33);
  test = makeRandomCluster(random);
  while (test.cluster.ranks.size() < 3)
    test = makeRandomCluster(random);
  choices.globalBatch = 12;
  choices.stages = {2};
  choices.shardings = {Sharding::Memory};
  choices.leaveOut = choices.chooseRecompute = false;
  auto exact = makePolicy("exact");
  found = searchPlans(test.cluster, test.model, *exact, choices);
  for (const PlanCandidate &plan :
       shortlistPlans(test.cluster, test.model, *exact, choices, found)) {
    EXPECT_EQ(plan.stage, 2);
    EXPECT_EQ(plan.sharding, Sharding::Memory);
    EXPECT_EQ(plan.ranks.size(), test.cluster.ranks.size());
  }
  // A baseline is what it is.
  auto uniform = makePolicy("uniform");
  choices.stages = {0, 1, 2, 3};
  choices.shardings = {Sharding::Equal};
  found = searchPlans(test.cluster, test.model, *uniform, choices);
  for (const PlanCandidate &plan :
       shortlistPlans(test.cluster, test.model, *uniform, choices, found))
    EXPECT_EQ(plan.allocation.policy, "uniform");
}

} // namespace

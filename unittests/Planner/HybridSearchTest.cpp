//===- HybridSearchTest.cpp - Hybrid plans against all that there are -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridSearch.h"
#include "HybridOracle.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace poplar;

/// Searches a problem, and looks at all of its plans one by one.
static void expectLeast(const HybridProblem &problem, int i,
                        HybridSearchResult &result) {
  ASSERT_EQ(problem.check(), "") << i;
  double least = searchAllHybrids(problem);
  result = searchHybridPlan(problem);
  ASSERT_EQ(result.plan.has_value(), std::isfinite(least)) << i;
  if (!result.plan) {
    EXPECT_NE(result.error.find("exceeds the memory"), std::string::npos);
    return;
  }
  EXPECT_EQ(result.plan->verify(problem), "") << i;
  ASSERT_NEAR(result.plan->seconds, least, 1e-9 * least) << i;
  EXPECT_NEAR(defineHybridCost(problem, *result.plan), least, 1e-9 * least)
      << i;
  EXPECT_TRUE(result.isProven()) << i;
}

TEST(HybridSearch, FindsTheLeastOfAllPlans) {
  std::mt19937 random(1);
  int solved = 0, piped = 0, sideBySide = 0, gpipe = 0, mixed = 0;
  for (int i = 0; i < 3000; ++i) {
    HybridProblem problem = makeRandomHybrid(random);
    HybridSearchResult result;
    ASSERT_NO_FATAL_FAILURE(expectLeast(problem, i, result));
    if (!result.plan)
      continue;
    ++solved;
    piped += result.plan->groups.size() > 1;
    sideBySide += result.plan->lanes.size() > 1;
    gpipe += result.plan->schedule == PipelineSchedule::GPipe;
    for (const HybridPlan::Lane::Stage &stage : result.plan->lanes[0].stages)
      if (stage.type != result.plan->lanes[0].stages[0].type) {
        ++mixed;
        break;
      }
  }
  // The problems are of all kinds.
  EXPECT_GT(solved, 2000);
  EXPECT_GT(piped, 300);
  EXPECT_GT(sideBySide, 100);
  EXPECT_GT(gpipe, 10);
  EXPECT_GT(mixed, 100);
}

TEST(HybridSearch, FindsTheLeastOfAllInterleavedPlans) {
  std::mt19937 random(4);
  int solved = 0, sideBySide = 0, mixed = 0, uneven = 0, noMemory = 0;
  for (int i = 0; i < 1500; ++i) {
    HybridProblem problem = makeRandomInterleaved(random);
    ASSERT_EQ(problem.check(), "") << i;
    // With several lanes, too many micro-batches are taken to be in flight:
    // what is found fits, but it need not be the best that does.
    if (problem.types.size() > 1) {
      HybridSearchResult tight = searchHybridPlan(problem);
      EXPECT_EQ(tight.plan ? tight.plan->verify(problem) : "", "") << i;
      for (HybridProblem::DeviceType &type : problem.types)
        type.memory = 100000;
    }
    HybridSearchResult result;
    ASSERT_NO_FATAL_FAILURE(expectLeast(problem, i, result));
    if (!result.plan) {
      problem.types[0].memory = 100000;
      noMemory += searchHybridPlan(problem).plan.has_value();
      continue;
    }
    const HybridPlan &plan = *result.plan;
    ++solved;
    sideBySide += plan.lanes.size() > 1;
    mixed +=
        plan.lanes[0].stages.front().type != plan.lanes[0].stages.back().type;
    for (const HybridPlan::Group &group : plan.groups)
      if ((group.end - group.first) % plan.chunks) {
        ++uneven;
        break;
      }
  }
  EXPECT_GT(solved, 400);
  EXPECT_GT(sideBySide, 20);
  EXPECT_GT(mixed, 50);
  EXPECT_GT(uneven, 50);
  EXPECT_GT(noMemory, 5);
}

TEST(HybridSearch, ReportsABoundWhenCutShort) {
  std::mt19937 random(2);
  int unproven = 0;
  for (int i = 0; i < 300; ++i) {
    HybridProblem problem = makeRandomHybrid(random);
    HybridSearchResult best = searchHybridPlan(problem),
                       cut = searchHybridPlan(problem, /*effort=*/20);
    if (!cut.plan)
      continue;
    ASSERT_TRUE(best.plan) << i;
    EXPECT_EQ(cut.plan->verify(problem), "") << i;
    EXPECT_LE(cut.lowerBound, best.plan->seconds * (1 + 1e-9)) << i;
    EXPECT_GE(cut.plan->seconds, best.plan->seconds * (1 - 1e-9)) << i;
    unproven += !cut.isProven();
  }
  EXPECT_GT(unproven, 20);
}

TEST(HybridProblem, NamesWhatIsWrong) {
  std::mt19937 random(3);
  HybridProblem good = makeRandomHybrid(random);
  auto check = [&](auto change) {
    HybridProblem problem = good;
    change(problem);
    return problem.check();
  };
  EXPECT_EQ(check([](HybridProblem &it) { it.parameters.units.clear(); }),
            "parameters: has no units");
  EXPECT_EQ(check([](HybridProblem &it) { it.globalBatch = 0; }),
            "globalBatch must be at least 1");
  EXPECT_EQ(check([](HybridProblem &it) { it.types[0].modes.clear(); }),
            "types[0]: has no modes");
  EXPECT_EQ(check([](HybridProblem &it) {
              it.types[0].modes[0].units[0].forward = -1;
            }),
            "types[0]: modes[0]: units[0]: seconds must be finite and not "
            "negative");
  EXPECT_EQ(check([](HybridProblem &it) { it.links[0].speed.bandwidth = 0; }),
            "links[0]: has no bandwidth");
  EXPECT_EQ(check([](HybridProblem &it) {
              it.schedules = {PipelineSchedule::Interleaved};
              it.chunks = 9;
            }),
            "chunks: interleaved stages have 2 to 8");
  EXPECT_EQ(check([](HybridProblem &it) { it.zeroStages = {4}; }),
            "zeroStages: there is no stage 4");
}

/// Breaks a good plan in every way that verify() names.
TEST(HybridPlan, NamesWhatIsWrong) {
  HybridProblem problem;
  problem.parameters.units = {{10}, {10}, {10}};
  problem.globalBatch = 8;
  problem.boundaryBytes = 4;
  HybridProblem::DeviceType type;
  type.name = "a";
  type.count = 4;
  type.memory = 10000;
  for (int microBatch : {1, 2})
    type.modes.push_back({1,
                          microBatch,
                          RecomputePolicy::Keep,
                          {{1, 2, 0, 8, 4}, {1, 2, 0, 8, 4}, {1, 2, 0, 8, 4}}});
  problem.types = {type};
  problem.links = {{{0.1, 100}, true}};
  ASSERT_EQ(problem.check(), "");
  HybridPlan good;
  good.groups = {{0, 1, 1}, {1, 3, 1}};
  good.lanes = {{{{0, 0}, {0, 0}}, 2, 8}};
  good.seconds = good.predict(problem);
  ASSERT_EQ(good.verify(problem), "");
  auto verify = [&](auto change) {
    HybridPlan plan = good;
    change(plan);
    return plan.verify(problem);
  };
  EXPECT_EQ(verify([](HybridPlan &it) { it.groups[1].first = 2; }),
            "groups[1]: units 2 to 3 do not follow unit 1");
  EXPECT_EQ(verify([](HybridPlan &it) { it.groups[1].end = 2; }),
            "groups: some units are in none");
  EXPECT_EQ(verify([](HybridPlan &it) { it.lanes[0].samples = 7; }),
            "lanes: have 7 samples, not 8");
  EXPECT_EQ(verify([](HybridPlan &it) { it.lanes[0].stages[1].mode = 1; }),
            "lanes[0]: stages[1]: has another micro-batch than stage 0");
  EXPECT_EQ(verify([](HybridPlan &it) { it.lanes[0].pipelines = 4; }),
            "uses 8 devices of type 'a', of which there are 4");
  EXPECT_EQ(verify([](HybridPlan &it) { it.chunks = 2; }),
            "chunks: 2 do not go with the schedule 1f1b");
  EXPECT_EQ(verify([](HybridPlan &it) {
              it.chunks = 2;
              it.schedule = PipelineSchedule::Interleaved;
            }),
            "groups[0]: has fewer units than chunks");
  EXPECT_EQ(verify([](HybridPlan &it) { it.seconds = 1; }).substr(0, 17),
            "seconds: claims 1");
  problem.types[0].memory = 200;
  EXPECT_EQ(good.verify(problem),
            "lanes[0].stages[1]: exceeds the memory of device type 'a'");
}

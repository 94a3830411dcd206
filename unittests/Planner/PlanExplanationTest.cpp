//===- PlanExplanationTest.cpp - Why a plan is as it is -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanExplanation.h"
#include "Oracle.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

using Limit = PlanExplanation::Limit;

Allocation solve(const std::string &policy, const BatchProblem &problem) {
  std::string error;
  auto plan = makePolicy(policy, error)->solve(problem, error);
  EXPECT_TRUE(plan) << error;
  return plan.value_or(Allocation());
}

/// A device with little memory, two at 1 s and 2 s a sample, and one so slow
/// that it is best left alone.
BatchProblem unlike(int zeroStage) {
  BatchProblem problem;
  problem.zeroStage = zeroStage;
  problem.globalBatch = 13;
  problem.iterationSync = 0.5;
  problem.types = {makeType("small", 1, affineCurve(0, 1, 8)),
                   makeType("fast", 1, affineCurve(0, 1, 16)),
                   makeType("mid", 1, affineCurve(0, 2, 16)),
                   makeType("slow", 1, affineCurve(0, 100, 2))};
  problem.types[0].largestBatch = 2;
  return problem;
}

TEST(PlanExplanationTest, LimitsOfSharedSteps) {
  // One step of 2 + 7 + 4 samples would take 8 s, of 2 + 8 + 3 also 8 s.
  BatchProblem problem = unlike(3);
  problem.stepSync = 100;
  Allocation plan = solve("exact", problem);
  ASSERT_DOUBLE_EQ(plan.seconds, 108.5);
  PlanExplanation why = explain(problem, plan);
  ASSERT_EQ(why.groups.size(), 4u);
  EXPECT_EQ(why.groups[0].limit, Limit::Memory);
  EXPECT_EQ(why.groups[0].share.last, 2);
  EXPECT_DOUBLE_EQ(why.groups[0].busy, 2);
  EXPECT_DOUBLE_EQ(why.groups[0].waiting, 6);
  EXPECT_FALSE(why.groups[0].slowest);
  EXPECT_EQ(why.groups[1].limit, Limit::Speed);
  EXPECT_TRUE(why.groups[1].slowest);
  EXPECT_EQ(why.groups[1].share.last, 8);
  EXPECT_EQ(why.groups[2].limit, Limit::Remainder);
  EXPECT_EQ(why.groups[2].share.last, 3);
  EXPECT_EQ(why.groups[3].limit, Limit::Speed);
  EXPECT_EQ(why.groups[3].share.samples(), 0);
  EXPECT_DOUBLE_EQ(why.groups[3].waiting, 8);
  EXPECT_DOUBLE_EQ(why.sumOfParts, 1 + 1 + 0.5 + 0.01);
  EXPECT_DOUBLE_EQ(why.throughput, 13 / 108.5);
  // Not its memory ends there, but what is known of it.
  problem.types[0].endsWithCurve = true;
  EXPECT_EQ(explain(problem, plan).groups[0].limit, Limit::Profile);
}

TEST(PlanExplanationTest, TheLastSampleIsNotLimitedByMemory) {
  // All samples in one step, in which as many fit.
  for (int stage : {0, 3}) {
    BatchProblem problem;
    problem.zeroStage = stage;
    problem.globalBatch = 4;
    problem.types = {makeType("only", 1, affineCurve(1, 1, 4))};
    PlanExplanation why = explain(problem, solve("exact", problem));
    EXPECT_EQ(why.groups[0].limit, Limit::Remainder) << stage;
  }
}

TEST(PlanExplanationTest, WhatIf) {
  BatchProblem problem = unlike(3);
  problem.stepSync = 100;
  PlanExplanation why = explain(problem, solve("exact", problem));
  ASSERT_EQ(why.whatIf.size(), 4u);
  // Another fast one: 2 + 5 + 5 + 2 in 5 s. Without, 2 + 11 would take 22 s.
  EXPECT_DOUBLE_EQ(*why.whatIf[1].oneMore, 105.5);
  EXPECT_DOUBLE_EQ(*why.whatIf[1].oneLess, 122.5);
  // Three samples on the small one: 3 + 7 + 3 in 7 s.
  EXPECT_DOUBLE_EQ(*why.whatIf[0].moreMemory, 107.5);
  // The others' curves end at what fits.
  EXPECT_FALSE(why.whatIf[1].moreMemory);
  // The slow one is of no use.
  EXPECT_DOUBLE_EQ(*why.whatIf[3].oneLess, 108.5);
  // The last device cannot be missing.
  BatchProblem alone = problem;
  alone.types.resize(1);
  why = explain(alone, solve("exact", alone));
  EXPECT_FALSE(why.whatIf[0].oneLess);
}

TEST(PlanExplanationTest, WhatIfAsksForProblemsOfThatSize) {
  // Here a device more makes collectives slower than it makes steps faster.
  BatchProblem problem = unlike(2);
  problem.stepSync = 1;
  auto problemOf = [&](const std::vector<int64_t> &counts) {
    BatchProblem other = problem;
    for (size_t i = 0; i < counts.size(); ++i) {
      other.types[i].count = counts[i];
      other.stepSync += counts[i] > 1 ? 50 : 0;
    }
    return std::optional<BatchProblem>(other);
  };
  Allocation plan = solve("exact", problem);
  PlanExplanation why = explain(problem, plan, problemOf);
  EXPECT_GT(*why.whatIf[1].oneMore, plan.seconds + 40);
  EXPECT_DOUBLE_EQ(*why.whatIf[3].oneLess, plan.seconds);
}

TEST(PlanExplanationTest, LimitsOfOwnSteps) {
  // The first device's rate rises with the micro-batch, of which only 2 fit: 10
  // samples take 15 s, 11 take 17. The second has its peak at 3 of 6: 13
  // samples take 16 s.
  BatchProblem problem;
  problem.zeroStage = 1;
  problem.globalBatch = 23;
  problem.types = {makeType("small", 1, affineCurve(1, 1, 8)),
                   makeType("peaked", 1, curveOf({2, 3, 3.5, 6, 8, 12}))};
  problem.types[0].largestBatch = 2;
  PlanExplanation why = explain(problem, solve("exact", problem));
  ASSERT_EQ(why.groups.size(), 2u);
  EXPECT_EQ(why.groups[0].limit, Limit::Memory);
  EXPECT_EQ(why.groups[1].limit, Limit::Speed);
  EXPECT_EQ(why.groups[1].share.microBatch, 3);
  EXPECT_DOUBLE_EQ(why.groups[0].waiting, 1);
  EXPECT_FALSE(why.groups[0].slowest);
  EXPECT_TRUE(why.groups[1].slowest);
  // With uniform batches, the second could do more in the same time.
  why = explain(problem, solve("uniform", problem));
  EXPECT_EQ(why.groups[1].limit, Limit::Remainder);
  EXPECT_GT(why.groups[1].waiting, 0);
}

TEST(PlanExplanationTest, DroppedDevices) {
  BatchProblem problem = unlike(0);
  Allocation plan = solve("homogeneous:mid", problem);
  PlanExplanation why = explain(problem, plan);
  ASSERT_EQ(why.groups.size(), 4u);
  EXPECT_EQ(why.groups[1].limit, Limit::Dropped);
  EXPECT_EQ(why.groups[2].limit, Limit::Speed);
  for (const Allocation &best : why.bestPlans)
    EXPECT_EQ(best.verify(problem), "");
  ASSERT_FALSE(why.bestPlans.empty());
  EXPECT_DOUBLE_EQ(why.bestPlans[0].seconds, plan.seconds);
}

TEST(PlanExplanationTest, RandomPlansAddUp) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    BatchProblem problem = randomProblem(random, i % 4);
    // What computation hides is in neither sum.
    problem.forwardSync = problem.backwardSync = problem.lastBackwardSync = 0;
    Allocation plan = solve(i % 8 < 4 ? "exact" : "whale", problem);
    PlanExplanation why = explain(problem, plan);
    bool someSlowest = false;
    std::vector<int64_t> devices(problem.types.size());
    double compute = plan.seconds - problem.iterationSync -
                     static_cast<double>(plan.steps()) * problem.stepSync;
    for (const PlanExplanation::RankGroup &group : why.groups) {
      ASSERT_EQ(group.firstDevice, devices[group.type]);
      devices[group.type] += group.count;
      ASSERT_NEAR(group.busy + group.waiting, compute, 1e-11 * compute)
          << describe(problem);
      ASSERT_GE(group.waiting, -1e-11 * compute);
      someSlowest |= group.slowest;
    }
    ASSERT_TRUE(someSlowest);
    for (size_t t = 0; t < devices.size(); ++t) {
      ASSERT_EQ(devices[t], problem.types[t].count);
      // A device more never hurts the optimum where nothing else changes.
      if (plan.policy == "exact") {
        ASSERT_LE(*why.whatIf[t].oneMore, plan.seconds * (1 + 1e-11));
      }
    }
    ASSERT_LE(why.throughput, why.sumOfParts * (1 + 1e-11));
    ASSERT_LE(why.bestPlans[0].seconds, plan.seconds * (1 + 1e-11));
  }
}

TEST(PlanExplanationTest, Text) {
  BatchProblem problem;
  problem.zeroStage = 3;
  problem.globalBatch = 15;
  problem.stepSync = 0.5;
  problem.types = {makeType("a100", 4, affineCurve(0, 0.25, 4)),
                   makeType("t4", 2, affineCurve(0, 2, 1))};
  Allocation plan = solve("exact", problem);
  EXPECT_EQ(
      formatExplanation(problem, plan, explain(problem, plan, nullptr, 1)),
      "type  devices micro-batch  steps   last  samples   busy [s]   wait "
      "[s]  limited by\n"
      "a100        3           4      1      4        4          1        "
      "  0  memory, slowest\n"
      "a100        1           3      1      3        3       0.75       "
      "0.25  remainder\n"
      "t4          2           0      1      0        0          0        "
      "  1  speed\n"
      "a100: one more: 1.25 s (-16.67%), one less: 2.25 s (+50.00%)\n"
      "t4: one more: 1.5 s (+0.00%), one less: 1.5 s (+0.00%)\n"
      "best plan: 1.5 s (+0.00%) in 1 step\n"
      "next best: 2 s (+33.33%) in 2 steps\n");
}

} // namespace

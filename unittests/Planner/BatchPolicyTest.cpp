//===- BatchPolicyTest.cpp - Policies on problems solved by hand ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchPolicy.h"
#include "Oracle.h"
#include <ctime>
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

Allocation solve(const std::string &policy, const BatchProblem &problem) {
  std::string error;
  auto algorithm = makePolicy(policy, error);
  EXPECT_TRUE(algorithm) << error;
  auto plan = algorithm->solve(problem, error);
  EXPECT_TRUE(plan) << error;
  if (!plan)
    return {};
  EXPECT_EQ(plan->verify(problem), "");
  EXPECT_EQ(plan->policy, policy);
  return *plan;
}

std::string refusal(const std::string &policy, const BatchProblem &problem) {
  std::string error;
  if (auto algorithm = makePolicy(policy, error)) {
    EXPECT_FALSE(algorithm->solve(problem, error));
  }
  return error;
}

/// Two devices, one four times as fast as the other.
BatchProblem fourToOne(int zeroStage, int64_t globalBatch) {
  BatchProblem problem;
  problem.zeroStage = zeroStage;
  problem.globalBatch = globalBatch;
  problem.types = {makeType("fast", 1, affineCurve(0, 1, 8)),
                   makeType("slow", 1, affineCurve(0, 4, 8))};
  problem.types[0].flops = 4;
  problem.types[1].flops = 1;
  return problem;
}

TEST(BatchPolicyTest, FourA100sShareFifteenSamples) {
  BatchProblem problem;
  problem.globalBatch = 15;
  problem.types = {makeType("a100", 4, affineCurve(0.5, 1, 4))};
  for (int stage = 0; stage < 4; ++stage) {
    problem.zeroStage = stage;
    for (const char *policy : {"exact", "poplar", "uniform"}) {
      Allocation plan = solve(policy, problem);
      for (int64_t device = 0; device < 4; ++device)
        EXPECT_EQ(plan.shareOf(0, device).samples(), device < 3 ? 4 : 3);
      EXPECT_DOUBLE_EQ(plan.seconds, 4.5);
    }
  }
}

TEST(BatchPolicyTest, UnlikeSpeedsFinishTogether) {
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = fourToOne(stage, 20);
    for (const char *policy : {"exact", "poplar", "whale"}) {
      Allocation plan = solve(policy, problem);
      EXPECT_EQ(plan.samplesOf(0), 16) << policy;
      EXPECT_EQ(plan.samplesOf(1), 4) << policy;
      EXPECT_DOUBLE_EQ(plan.seconds, 16) << policy;
    }
    // Half of the samples each: 2.5 times as long.
    EXPECT_DOUBLE_EQ(solve("uniform", problem).seconds, 40);
    EXPECT_DOUBLE_EQ(solve("homogeneous:fast", problem).seconds, 20);
    EXPECT_DOUBLE_EQ(solve("homogeneous:slow", problem).seconds, 80);
    EXPECT_EQ(solve("homogeneous:slow", problem).types[0].dropped, 1);
  }
}

TEST(BatchPolicyTest, SlowRanksMayHaveNoSamples) {
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = fourToOne(stage, 3);
    Allocation plan = solve("exact", problem);
    EXPECT_EQ(plan.samplesOf(0), 3);
    EXPECT_EQ(plan.samplesOf(1), 0);
    EXPECT_EQ(plan.shareOf(1, 0).steps, stage < 2 ? 0 : 1);
    EXPECT_DOUBLE_EQ(plan.seconds, 3);
  }
}

TEST(BatchPolicyTest, FewerSamplesThanRanks) {
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = fourToOne(stage, 3);
    problem.types[0].count = 2;
    problem.types[1].count = 5;
    EXPECT_DOUBLE_EQ(solve("exact", problem).seconds, 2);
    EXPECT_DOUBLE_EQ(solve("poplar", problem).seconds, 2);
    // In one step the third sample would be a slow rank's; two and one are
    // faster.
    EXPECT_DOUBLE_EQ(solve("whale", problem).seconds, 2);
    // Its one step has one sample each; the fast ranks come first.
    Allocation uniform = solve("uniform", problem);
    EXPECT_EQ(uniform.samplesOf(0), 2);
    EXPECT_EQ(uniform.samplesOf(1), 1);
  }
}

TEST(BatchPolicyTest, StepsAreTradedAgainstTheirSynchronisation) {
  // Three samples at a time are fastest, if steps cost nothing.
  BatchProblem problem;
  problem.zeroStage = 2;
  problem.globalBatch = 12;
  problem.types = {makeType("one", 1, curveOf({1, 1.5, 1.8, 3, 4.5, 6}))};
  EXPECT_EQ(solve("exact", problem).steps(), 4);
  problem.stepSync = 0.5;
  EXPECT_EQ(solve("exact", problem).steps(), 4);
  problem.stepSync = 2;
  EXPECT_EQ(solve("exact", problem).steps(), 3);
  problem.stepSync = 5;
  EXPECT_EQ(solve("exact", problem).steps(), 2);
}

TEST(BatchPolicyTest, OfEqualPlansTheOneWithFewSteps) {
  // Proportional times: any steps take as long, but for rounding.
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem;
    problem.zeroStage = stage;
    problem.globalBatch = 21;
    problem.types = {makeType("one", 1, affineCurve(0, 0.1, 7))};
    EXPECT_EQ(solve("exact", problem).steps(), 3);
  }
}

TEST(BatchPolicyTest, OwnStepsUseThePeak) {
  // The best rate is at three of six samples; seven are two of these and one.
  BatchProblem problem;
  problem.zeroStage = 0;
  problem.globalBatch = 7;
  problem.types = {makeType("one", 1, curveOf({1, 1.5, 1.8, 3.2, 4.5, 6}))};
  for (const char *policy : {"exact", "poplar"}) {
    Allocation plan = solve(policy, problem);
    EXPECT_TRUE(plan.shareOf(0, 0) == (RankShare{3, 3, 1})) << policy;
    EXPECT_DOUBLE_EQ(plan.seconds, 4.6);
  }
  // Four samples as three and one take 2.8, as two and two 3.
  problem.globalBatch = 4;
  EXPECT_TRUE(solve("exact", problem).shareOf(0, 0) == (RankShare{3, 2, 1}));
}

TEST(BatchPolicyTest, UniformIsBoundByTheSmallestMemory) {
  BatchProblem problem = fourToOne(3, 24);
  problem.stepSync = 1;
  problem.types[1].largestBatch = 2;
  Allocation plan = solve("uniform", problem);
  EXPECT_EQ(plan.steps(), 6);
  EXPECT_EQ(plan.shareOf(0, 0).microBatch, 2);
  EXPECT_DOUBLE_EQ(plan.seconds, 6 * (8 + 1));
  problem.types[1].largestBatch = 0;
  EXPECT_EQ(
      refusal("uniform", problem),
      "uniform: no sample fits on a device of type 'slow', so there is no "
      "micro-batch for all");
}

TEST(BatchPolicyTest, WhaleMovesWhatDoesNotFit) {
  BatchProblem problem = fourToOne(3, 20);
  problem.stepSync = 100;
  problem.types[0].largestBatch = 8;
  problem.types[1].largestBatch = 2;
  problem.types.push_back(makeType("mid", 1, affineCurve(0, 2, 16)));
  problem.types[2].flops = 2;
  // One step: 20 samples by FLOP/s are 11.4, 2.9 and 5.7. The first two are
  // over memory, and the third takes what they cannot.
  Allocation plan = solve("whale", problem);
  EXPECT_EQ(plan.steps(), 1);
  EXPECT_EQ(plan.samplesOf(0), 8);
  EXPECT_EQ(plan.samplesOf(1), 2);
  EXPECT_EQ(plan.samplesOf(2), 10);
  problem.types[1].flops = 0;
  EXPECT_EQ(refusal("whale", problem),
            "whale: the FLOP/s of type 'slow' are not known");
}

TEST(BatchPolicyTest, Refusals) {
  BatchProblem problem = fourToOne(0, 4);
  EXPECT_EQ(refusal("homogeneous:t4", problem),
            "homogeneous:t4: there is no device type 't4'");
  problem.types[1].largestBatch = 0;
  EXPECT_EQ(refusal("homogeneous:slow", problem),
            "homogeneous:slow: no device has memory for a single sample");
  EXPECT_EQ(refusal("homogeneous:", problem),
            "there is no policy 'homogeneous:'; use exact, poplar, uniform, "
            "whale, homogeneous:TYPE or batch:TYPE=SAMPLES,...");
  problem.globalBatch = 0;
  EXPECT_EQ(refusal("exact", problem),
            "globalBatch: 0 is not between 1 and 16777216");
  std::string error;
  EXPECT_TRUE(bestAllocations(problem, 3, error).empty());
  EXPECT_NE(error, "");
}

TEST(BatchPolicyTest, ThousandsOfDevicesTakeNoLonger) {
  // 16,384 devices of 8 types that hold up to 4,096 samples, and 100,000
  // samples. An algorithm that looks at devices one by one would take minutes.
  // Processor time: the machine may be busy with other tests.
  std::clock_t start = std::clock();
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem;
    problem.zeroStage = stage;
    problem.globalBatch = 100000;
    problem.stepSync = stage >= 2 ? 0.05 : 0;
    for (int i = 0; i < 8; ++i) {
      problem.types.push_back(makeType(
          "t" + std::to_string(i), 2048,
          affineCurve(0.01 * (i + 1), 0.003 * (i + 2), 512 * (i + 1))));
      problem.types.back().flops = 8 - i;
    }
    for (const char *policy : {"exact", "poplar", "uniform", "whale"})
      solve(policy, problem);
  }
  EXPECT_LT(double(std::clock() - start) / CLOCKS_PER_SEC, 10);
}

} // namespace

//===- SharesPolicyTest.cpp - A user's own shares -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Oracle.h"
#include "Poplar/Planner/Batch/BatchPolicy.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

BatchProblem cluster(int zeroStage, int64_t globalBatch) {
  BatchProblem problem;
  problem.zeroStage = zeroStage;
  problem.globalBatch = globalBatch;
  problem.types = {makeType("a100", 4, affineCurve(0.1, 0.1, 4)),
                   makeType("v100", 2, affineCurve(0.1, 0.4, 2))};
  constexpr int64_t gib = int64_t(1) << 30;
  problem.types[0].memoryBytes = 40 * gib;
  problem.types[0].fixedBytes = 6 * gib;
  problem.types[0].bytesPerSample = 8 * gib;
  return problem;
}

std::string refusal(const std::string &shares, const BatchProblem &problem) {
  std::string error;
  if (auto policy = makeSharesPolicy(shares, error)) {
    EXPECT_FALSE(policy->solve(problem, error));
  }
  return error;
}

TEST(SharesPolicyTest, SharesAreOfAllDevicesOfTheType) {
  for (int stage = 0; stage < 4; ++stage) {
    BatchProblem problem = cluster(stage, 17);
    std::string error;
    auto policy = makeSharesPolicy("a100=15,v100=2", error);
    ASSERT_TRUE(policy) << error;
    EXPECT_EQ(policy->getName(), "batch:a100=15,v100=2");
    auto plan = policy->solve(problem, error);
    ASSERT_TRUE(plan) << error;
    EXPECT_EQ(plan->verify(problem), "");
    for (int64_t device = 0; device < 3; ++device)
      EXPECT_TRUE(plan->shareOf(0, device) == (RankShare{4, 1, 4}));
    EXPECT_TRUE(plan->shareOf(0, 3) == (RankShare{3, 1, 3}));
    EXPECT_TRUE(plan->shareOf(1, 1) == (RankShare{1, 1, 1}));
  }
}

TEST(SharesPolicyTest, TheLastStepTakesTheRemainderInProportion) {
  // 17, 17 and 7 samples: of the last, 15/17 are 6.2.
  BatchProblem problem = cluster(3, 41);
  std::string error;
  auto plan = makeSharesPolicy("a100=15,v100=2", error)->solve(problem, error);
  ASSERT_TRUE(plan) << error;
  EXPECT_EQ(plan->verify(problem), "");
  EXPECT_EQ(plan->samplesPerStep(), 17);
  EXPECT_EQ(plan->samplesInLastStep(), 7);
  EXPECT_TRUE(plan->shareOf(0, 0) == (RankShare{4, 3, 2}));
  EXPECT_TRUE(plan->shareOf(0, 3) == (RankShare{3, 3, 1}));
  EXPECT_TRUE(plan->shareOf(1, 0) == (RankShare{1, 3, 1}));
  EXPECT_TRUE(plan->shareOf(1, 1) == (RankShare{1, 3, 0}));
}

TEST(SharesPolicyTest, ZeroIsAShare) {
  BatchProblem problem = cluster(2, 32);
  std::string error;
  auto plan = makeSharesPolicy("v100=0,a100=16", error)->solve(problem, error);
  ASSERT_TRUE(plan) << error;
  EXPECT_EQ(plan->verify(problem), "");
  EXPECT_TRUE(plan->shareOf(1, 0) == (RankShare{0, 2, 0}));
}

TEST(SharesPolicyTest, Refusals) {
  BatchProblem problem = cluster(3, 17);
  EXPECT_EQ(
      refusal("a100=17,v100=0", problem),
      "batch:a100=17,v100=0: a100: 17 samples on 4 devices make 5 on one, "
      "where 4 fit: they need 46.00 GiB (6.00 GiB and 8.00 GiB a sample), "
      "it has 40.00 GiB");
  EXPECT_EQ(refusal("a100=1,v100=5", problem),
            "batch:a100=1,v100=5: v100: 5 samples on 2 devices make 3 on one, "
            "where 2 fit");
  EXPECT_EQ(refusal("a100=15", problem),
            "batch:a100=15: no share for type 'v100'; give v100=0 if it is to "
            "have no samples");
  EXPECT_EQ(refusal("a100=15,t4=2", problem),
            "batch:a100=15,t4=2: there is no device type 't4'");
  EXPECT_EQ(
      refusal("a100=16,v100=2", problem),
      "batch:a100=16,v100=2: the shares make steps of 18 samples, but the "
      "global batch has only 17");
  EXPECT_EQ(refusal("a100=0,v100=0", problem),
            "batch:a100=0,v100=0: all shares are 0");
  EXPECT_EQ(refusal("a100=1,a100=2", problem),
            "batch shares 'a100=1,a100=2': type 'a100' appears twice");
  for (const char *text : {"", "a100", "=3", "a100=", "a100=-1", "a100=x",
                           "a100=1,", "a100=12345678901"}) {
    std::string error = refusal(text, problem);
    EXPECT_NE(error.find("expected TYPE=SAMPLES"), std::string::npos) << error;
  }
}

} // namespace

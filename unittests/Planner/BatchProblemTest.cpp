//===- BatchProblemTest.cpp - Who takes how many samples ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/BatchProblem.h"
#include "Oracle.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

BatchProblem twoTypes(int zeroStage) {
  BatchProblem problem;
  problem.zeroStage = zeroStage;
  problem.globalBatch = 10;
  problem.types = {makeType("fast", 1, affineCurve(0, 1, 4)),
                   makeType("slow", 2, affineCurve(0, 2, 2))};
  return problem;
}

TEST(BatchProblemTest, Check) {
  auto check = [](auto &&change) {
    BatchProblem problem = twoTypes(2);
    change(problem);
    return problem.check();
  };
  EXPECT_EQ(check([](BatchProblem &) {}), "");
  EXPECT_EQ(check([](BatchProblem &p) { p.types.clear(); }),
            "there are no device types");
  EXPECT_EQ(check([](BatchProblem &p) { p.types[1].name = ""; }),
            "types[1]: has no name");
  EXPECT_EQ(check([](BatchProblem &p) { p.types[1].name = "fast"; }),
            "types[1] 'fast': the name is taken by types[0]");
  EXPECT_EQ(check([](BatchProblem &p) { p.types[1].count = -1; }),
            "types[1] 'slow': count is -1");
  EXPECT_EQ(
      check([](BatchProblem &p) { p.types[0].largestBatch = 5; }),
      "types[0] 'fast': largest micro-batch is 5, but its curve ends at 4");
  EXPECT_EQ(check([](BatchProblem &p) {
              p.types[0].memoryBytes = 100;
              p.types[0].fixedBytes = 61;
              p.types[0].bytesPerSample = 10;
            }),
            "types[0] 'fast': needs 101 bytes at its largest micro-batch (4), "
            "but has 100 bytes");
  EXPECT_EQ(check([](BatchProblem &p) { p.types[0].flops = -1; }),
            "types[0] 'fast': FLOP/s must be finite and not negative");
  EXPECT_EQ(check([](BatchProblem &p) { p.globalBatch = 0; }),
            "globalBatch: 0 is not between 1 and 16777216");
  EXPECT_EQ(check([](BatchProblem &p) { p.zeroStage = 4; }),
            "zeroStage: 4 is not 0, 1, 2 or 3");
  EXPECT_EQ(check([](BatchProblem &p) { p.stepSync = -1; }),
            "stepSync: must be finite and not negative");
  EXPECT_EQ(check([](BatchProblem &p) {
              p.zeroStage = 1;
              p.stepSync = 1;
            }),
            "stepSync: ranks do not meet in every step in stage 1");
  EXPECT_EQ(
      check([](BatchProblem &p) { p.types[0].count = p.types[1].count = 0; }),
      "there are no devices");
  EXPECT_EQ(check([](BatchProblem &p) {
              for (auto &type : p.types) {
                type.largestBatch = 0;
                type.memoryBytes = type.count * 100;
                type.fixedBytes = 190;
                type.bytesPerSample = 50;
              }
              p.types[0].memoryBytes = 200;
              p.types[1].memoryBytes = 210;
            }),
            "no device has memory for a single sample; 'slow' comes closest, "
            "with 30 bytes more memory it would hold one");
}

TEST(BatchProblemTest, SharedStepsTakeTheSlowestRanksTime) {
  BatchProblem problem = twoTypes(3);
  problem.stepSync = 0.5;
  problem.iterationSync = 0.25;
  Allocation allocation;
  // 4 + 1 + 1 samples, then 2 + 1 + 1.
  allocation.types = {{{{1, {4, 2, 2}}}}, {{{2, {1, 2, 1}}}}};
  allocation.seconds = (4 + 0.5) + (2 + 0.5) + 0.25;
  EXPECT_EQ(allocation.verify(problem), "");
  EXPECT_EQ(allocation.samplesPerStep(), 6);
  EXPECT_EQ(allocation.samplesInLastStep(), 4);
  EXPECT_EQ(allocation.samplesOf(0), 6);
  EXPECT_EQ(allocation.steps(), 2);
}

TEST(BatchProblemTest, OwnStepsAddUpPerRank) {
  BatchProblem problem = twoTypes(1);
  problem.iterationSync = 0.25;
  Allocation allocation;
  allocation.types = {{{{1, {4, 2, 3}}}}, {{{1, {2, 1, 2}}, {1, {1, 1, 1}}}}};
  allocation.seconds = 7 + 0.25;
  EXPECT_EQ(allocation.verify(problem), "");
  EXPECT_TRUE(allocation.shareOf(1, 0) == (RankShare{2, 1, 2}));
  EXPECT_TRUE(allocation.shareOf(1, 1) == (RankShare{1, 1, 1}));
}

TEST(BatchProblemTest, WrongSolutionsAreRejected) {
  BatchProblem shared = twoTypes(2), own = twoTypes(0);
  auto verify = [](const BatchProblem &problem,
                   std::vector<Allocation::TypeShares> types,
                   double seconds = -1) {
    Allocation allocation;
    allocation.types = std::move(types);
    if (allocation.types.size() == problem.types.size())
      allocation.seconds = seconds < 0 ? allocation.predict(problem) : seconds;
    return allocation.verify(problem);
  };
  using Types = std::vector<Allocation::TypeShares>;
  Types good = {{{{1, {4, 2, 2}}}}, {{{2, {1, 2, 1}}}}};
  EXPECT_EQ(verify(shared, good), "");
  EXPECT_EQ(verify(shared, good, 5), "claims 5 s, but takes 6 s");
  EXPECT_EQ(verify(shared, {good[0]}), "has shares of 1 types for 2");
  EXPECT_EQ(verify(shared, {good[0], {{{1, {1, 2, 1}}}}}),
            "type 'slow' has shares of 1 devices for 2");
  EXPECT_EQ(verify(shared, {good[0], {{{2, {1, 2, 1}}}, 1}}),
            "type 'slow' has shares of 3 devices for 2");
  EXPECT_EQ(verify(shared, {good[0], {{{2, {1, 2, 1}}, {0, {}}}}}),
            "type 'slow' has an empty group");
  EXPECT_EQ(verify(shared, {good[0], {{{2, {1, 2, 0}}}}}),
            "shares add up to 8 samples, not 10");
  EXPECT_EQ(verify(shared, {good[0], {{{1, {2, 2, 0}}, {1, {1, 1, 1}}}}}),
            "type 'slow' makes 1 steps, others make 2");
  // Over memory, in the last step as in any other.
  BatchProblem small = shared;
  small.types[1].largestBatch = 1;
  EXPECT_EQ(verify(small, {good[0], {{{2, {0, 2, 2}}}}}),
            "type 'slow' has a micro-batch of 2, but only 1 fit");
  EXPECT_EQ(verify(own, {{{{1, {3, 2, 4}}}}, {{{2, {1, 2, 1}}}}}),
            "type 'fast' has 4 samples in its last step, more than its "
            "micro-batch of 3");
  EXPECT_EQ(verify(own, {{{{1, {3, 2, 0}}}}, {{{2, {1, 2, 1}}}}}),
            "type 'fast' makes 2 steps and has 0 samples in the last");
  EXPECT_EQ(verify(own, {{{{1, {3, -2, 3}}}}, {{{2, {1, 2, 1}}}}}),
            "type 'fast' has a negative share");
}

} // namespace

//===- DeviceSelectionTest.cpp - Which devices to leave out ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/DeviceSelection.h"
#include "Oracle.h"
#include <gtest/gtest.h>
#include <limits>

using namespace poplar;
using namespace poplar::test;

namespace {

/// Jobs without shares to choose.
JobOfCounts jobOf(ProblemOfCounts problemOf) {
  return [=](const std::vector<int64_t> &counts,
             double limit) -> std::optional<PosedJob> {
    PosedJob job;
    job.problem = problemOf(counts);
    if (!job.problem)
      return std::nullopt;
    return job;
  };
}

/// One fast type, and slow devices whose link makes every step wait.
ProblemOfCounts fastAndFar(int64_t batch) {
  return
      [=](const std::vector<int64_t> &counts) -> std::optional<BatchProblem> {
        BatchProblem problem;
        problem.zeroStage = 3;
        problem.globalBatch = batch;
        problem.stepSync = counts[1] > 0 ? 10 : 1;
        problem.types = {makeType("near", counts[0], affineCurve(0, 1, 4)),
                         makeType("far", counts[1], affineCurve(0, 2, 4))};
        return problem;
      };
}

TEST(DeviceSelectionTest, LeavesOutWhatCostsMoreThanItBrings) {
  std::string error;
  auto selection = selectDevices(DeviceSpace::ofTypes({2, 2}),
                                 jobOf(fastAndFar(16)), exact(), error);
  ASSERT_TRUE(selection) << error;
  EXPECT_TRUE(selection->exhaustive);
  EXPECT_EQ(selection->counts, (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(selection->allocation.types[1].dropped, 2);
  EXPECT_DOUBLE_EQ(selection->allocation.seconds, 2 * (4 + 1));
  EXPECT_EQ(selection->problem.types[1].count, 2);
  EXPECT_EQ(selection->allocation.verify(selection->problem), "");
}

TEST(DeviceSelectionTest, UsesAllWhereItMakesNoDifference) {
  auto problemOf = [](const std::vector<int64_t> &counts) {
    BatchProblem problem;
    problem.globalBatch = 2;
    problem.types = {makeType("a", counts[0], affineCurve(0, 1, 4)),
                     makeType("b", counts[1], affineCurve(0, 1, 4))};
    return std::optional<BatchProblem>(problem);
  };
  std::string error;
  auto selection = selectDevices(DeviceSpace::ofTypes({3, 5}), jobOf(problemOf),
                                 exact(), error);
  ASSERT_TRUE(selection) << error;
  EXPECT_EQ(selection->counts, (std::vector<int64_t>{3, 5}));
  // Also where not all can be used: three of one type, or one of the other.
  auto notBoth = [&](const std::vector<int64_t> &counts) {
    auto problem = problemOf(counts);
    problem->globalBatch = 1;
    problem->iterationSync = counts[0] > 0 && counts[1] > 0 ? 10 : 0;
    return problem;
  };
  selection = selectDevices(DeviceSpace::ofTypes({3, 1}), jobOf(notBoth),
                            exact(), error);
  ASSERT_TRUE(selection) << error;
  EXPECT_EQ(selection->counts, (std::vector<int64_t>{3, 0}));
}

TEST(DeviceSelectionTest, ExhaustiveSearchFindsTheLeast) {
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    BatchProblem all = randomProblem(random, 2 + i % 2);
    std::vector<double> share(all.types.size());
    for (double &cost : share)
      cost = random() % 4 * 0.1;
    auto problemOf = [&](const std::vector<int64_t> &counts) {
      BatchProblem problem = all;
      problem.stepSync = 0.1;
      for (size_t t = 0; t < counts.size(); ++t) {
        problem.types[t].count = counts[t];
        problem.stepSync += share[t] * static_cast<double>(counts[t]);
      }
      return std::optional<BatchProblem>(problem);
    };
    std::vector<int64_t> available;
    for (const auto &type : all.types)
      available.push_back(type.count);
    double least = std::numeric_limits<double>::infinity();
    std::vector<int64_t> counts(3);
    auto countOf = [&](size_t t) {
      return t < all.types.size() ? all.types[t].count : 0;
    };
    for (counts[0] = 0; counts[0] <= countOf(0); ++counts[0])
      for (counts[1] = 0; counts[1] <= countOf(1); ++counts[1])
        for (counts[2] = 0; counts[2] <= countOf(2); ++counts[2]) {
          auto problem =
              problemOf({counts.begin(), counts.begin() + all.types.size()});
          if (problem->check().empty())
            least = std::min(least, bruteForce(*problem));
        }
    std::string error;
    auto selection = selectDevices(DeviceSpace::ofTypes(available),
                                   jobOf(problemOf), exact(), error);
    ASSERT_TRUE(selection) << error;
    ASSERT_NEAR(selection->allocation.seconds, least, 1e-11 * least)
        << describe(all);
    ASSERT_EQ(selection->allocation.verify(selection->problem), "");
  }
}

TEST(DeviceSelectionTest, ManyDevicesAreSearchedWithinTheBudget) {
  // Each device costs 1 ms a step of every device's time, so that some 30 of
  // the 1,000 fast ones are best for 3,000 samples, and no slow ones.
  int64_t problems = 0;
  auto problemOf = [&](const std::vector<int64_t> &counts) {
    ++problems;
    BatchProblem problem;
    problem.zeroStage = 2;
    problem.globalBatch = 3000;
    problem.stepSync = 0.001 * static_cast<double>(counts[0] + counts[1]);
    problem.types = {makeType("a", counts[0], affineCurve(0, 0.0003, 64)),
                     makeType("b", counts[1], affineCurve(0, 0.03, 64))};
    return std::optional<BatchProblem>(problem);
  };
  std::string error;
  auto selection = selectDevices(DeviceSpace::ofTypes({1000, 1000}),
                                 jobOf(problemOf), exact(), error, 300);
  ASSERT_TRUE(selection) << error;
  EXPECT_FALSE(selection->exhaustive);
  EXPECT_LE(problems, 300);
  // What one type alone can do, by trying each count.
  double least = std::numeric_limits<double>::infinity();
  for (int64_t count = 1; count <= 1000; ++count)
    least =
        std::min(least, exact().solve(*problemOf({count, 0}), error)->seconds);
  EXPECT_LE(selection->allocation.seconds, least * 1.02);
  EXPECT_EQ(selection->counts[1], 0);
}

TEST(DeviceSelectionTest, Refusals) {
  std::string error;
  EXPECT_FALSE(selectDevices(DeviceSpace::ofTypes({2, 2}), jobOf(fastAndFar(0)),
                             exact(), error));
  EXPECT_EQ(error, "globalBatch: 0 is not between 1 and 16777216");
  auto none = [](const std::vector<int64_t> &) {
    return std::optional<BatchProblem>();
  };
  EXPECT_FALSE(
      selectDevices(DeviceSpace::ofTypes({2}), jobOf(none), exact(), error));
  EXPECT_EQ(error, "there is no such job");
}

} // namespace

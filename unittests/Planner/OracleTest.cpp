//===- OracleTest.cpp - Every policy against every plan -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Oracle.h"
#include "Poplar/Planner/Batch/BatchPolicy.h"
#include <algorithm>
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

constexpr int problems = 5000;
/// Sums in another order are rounded differently.
constexpr double rounding = 1e-11;

class OracleTest : public testing::TestWithParam<int> {};

std::optional<Allocation> solve(const std::string &policy,
                                const BatchProblem &problem,
                                std::string &error) {
  auto algorithm = makePolicy(policy, error);
  if (!algorithm)
    return std::nullopt;
  return algorithm->solve(problem, error);
}

TEST_P(OracleTest, ExactIsTheLeastOfAllPlans) {
  std::mt19937 random(1 + GetParam());
  std::string error;
  for (int i = 0; i < problems; ++i) {
    BatchProblem problem = randomProblem(random, GetParam());
    auto exact = solve("exact", problem, error);
    ASSERT_TRUE(exact) << error;
    ASSERT_EQ(exact->verify(problem), "") << describe(problem);
    double least = bruteForce(problem);
    ASSERT_NEAR(exact->seconds, least, rounding * least) << describe(problem);
    // Where the last step is the smaller one, it is so on every rank.
    if (exact->samplesInLastStep() > exact->samplesPerStep())
      continue;
    for (const Allocation::TypeShares &type : exact->types)
      for (const Allocation::Group &group : type.groups)
        ASSERT_LE(group.share.last, group.share.microBatch)
            << describe(problem);
  }
}

TEST_P(OracleTest, NoPolicyBeatsExact) {
  std::mt19937 random(11 + GetParam());
  int solved[5] = {};
  for (int i = 0; i < problems; ++i) {
    BatchProblem problem = randomProblem(random, GetParam());
    std::string shares;
    for (const auto &type : problem.types)
      shares += (shares.empty() ? "batch:" : ",") + type.name + "=" +
                std::to_string(random() % (type.count * type.largestBatch + 1));
    std::string policies[] = {"poplar", "uniform", "whale", "homogeneous:t0",
                              shares};
    std::string error;
    auto exact = solve("exact", problem, error);
    ASSERT_TRUE(exact) << error;
    for (int p = 0; p < 5; ++p) {
      auto other = solve(policies[p], problem, error);
      if (!other) {
        ASSERT_NE(error, "");
        continue;
      }
      ++solved[p];
      ASSERT_EQ(other->verify(problem), "") << policies[p] << "\n"
                                            << describe(problem);
      ASSERT_GE(other->seconds, exact->seconds * (1 - rounding))
          << policies[p] << "\n"
          << describe(problem);
    }
  }
  // These can solve anything; the others refuse what they must.
  EXPECT_EQ(solved[0], problems);
  EXPECT_EQ(solved[2], problems);
  for (int count : solved)
    EXPECT_GT(count, problems / 4);
}

TEST_P(OracleTest, AlternativesAreInOrder) {
  std::mt19937 random(21 + GetParam());
  std::string error;
  int withSecond = 0;
  for (int i = 0; i < problems; ++i) {
    BatchProblem problem = randomProblem(random, GetParam());
    std::vector<Allocation> plans = bestAllocations(problem, 4, error);
    ASSERT_FALSE(plans.empty()) << error;
    ASSERT_LE(plans.size(), 4u);
    for (size_t p = 0; p < plans.size(); ++p) {
      ASSERT_EQ(plans[p].verify(problem), "") << describe(problem);
      if (p > 0) {
        ASSERT_GE(plans[p].seconds, plans[p - 1].seconds * (1 - rounding));
      }
    }
    if (!problem.sharesSteps() || plans.size() < 2)
      continue;
    ++withSecond;
    double second = bruteForce(problem, plans[0].steps());
    ASSERT_NEAR(plans[1].seconds, second, rounding * second)
        << describe(problem);
    std::vector<int64_t> steps;
    for (const Allocation &plan : plans)
      steps.push_back(plan.steps());
    std::sort(steps.begin(), steps.end());
    ASSERT_EQ(std::unique(steps.begin(), steps.end()), steps.end());
  }
  if (GetParam() >= 2) {
    EXPECT_GT(withSecond, problems / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Stages, OracleTest, testing::Range(0, 4));

} // namespace

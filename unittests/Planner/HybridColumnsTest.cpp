//===- HybridColumnsTest.cpp - Columns against all that there are ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Pipeline/HybridColumns.h"
#include "HybridOracle.h"
#include "Poplar/Planner/Pipeline/PipelineSimulation.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace poplar;

/// Two types, and one ZeRO stage.
static HybridProblem makeRandomColumns(std::mt19937 &random) {
  while (true) {
    HybridProblem problem = makeRandomHybrid(random);
    if (problem.types.size() != 2 || problem.globalBatch < 2)
      continue;
    problem.zeroStages = {static_cast<int>(random() % 2)};
    return problem;
  }
}

static void expectColumns(const HybridProblem &problem,
                          const HybridColumns &found, int i) {
  ASSERT_EQ(found.columns.size(), 2u) << i;
  int64_t samples = 0;
  double longest = 0;
  FirstSync all;
  for (const HybridColumns::Column &column : found.columns) {
    EXPECT_EQ(column.problem.check(), "") << i;
    EXPECT_EQ(column.plan.verify(column.problem), "") << i;
    FirstSync own;
    EXPECT_NEAR(defineHybridCost(column.problem, column.plan, &own),
                column.plan.seconds, 1e-9 * column.plan.seconds)
        << i;
    all = {std::max(all.seconds, own.seconds),
           std::max(all.before, own.before)};
    samples += column.problem.globalBatch;
    longest = std::max(longest, column.plan.seconds);
  }
  EXPECT_EQ(samples, problem.globalBatch) << i;
  // The first unit is exchanged once all have computed.
  longest = std::max(longest, all.before + all.seconds);
  EXPECT_NEAR(longest, found.predicted, 1e-9 * longest) << i;
  EXPECT_EQ(simulatePipelines(found.getSolved()).seconds, found.simulated) << i;
}

TEST(HybridColumns, AreHardlySlowerThanTheLeastOfAllAndNoneBeatsTheBound) {
  std::mt19937 random(1);
  int solved = 0, proven = 0, least = 0, tighter = 0;
  for (int i = 0; i < 300; ++i) {
    HybridProblem problem = makeRandomColumns(random);
    ASSERT_EQ(problem.check(), "") << i;
    double best = searchAllColumns(problem);
    HybridColumns found =
        searchHybridColumns(problem, hybridEffort, /*mostChunks=*/1);
    EXPECT_LE(found.lowerBound, best * (1 + 1e-9)) << i;
    double before = found.lowerBound;
    tightenBound(problem, found, hybridEffort, /*mostChunks=*/1);
    EXPECT_GE(found.lowerBound, before) << i;
    EXPECT_LE(found.lowerBound, best * (1 + 1e-9)) << i;
    tighter += found.lowerBound > before;
    if (found.columns.empty())
      continue;
    ASSERT_NO_FATAL_FAILURE(expectColumns(problem, found, i));
    ++solved;
    EXPECT_GE(found.predicted, best * (1 - 1e-9)) << i;
    least += found.predicted <= best * 1.02;
    proven += found.lowerBound >= found.predicted * 0.98;
  }
  EXPECT_GT(solved, 200);
  EXPECT_GT(least, solved * 7 / 10);
  EXPECT_GT(proven, 3);
  EXPECT_GT(tighter, solved / 10);
}

/// What is in flight in interleaved stages depends on the micro-batches.
TEST(HybridColumns, NoneOfSeveralChunksBeatsTheBound) {
  std::mt19937 random(2);
  int solved = 0, interleaved = 0;
  for (int i = 0; i < 100; ++i) {
    HybridProblem problem;
    do
      problem = makeRandomInterleaved(random);
    while (problem.types.size() != 2);
    problem.zeroStages = {i % 2};
    problem.schedules = {PipelineSchedule::OneForwardOneBackward};
    constexpr int mostChunks = 2;
    HybridColumns found =
        searchHybridColumns(problem, hybridEffort, mostChunks);
    tightenBound(problem, found, hybridEffort, mostChunks);
    double best = searchAllColumns(problem, mostChunks);
    EXPECT_LE(found.lowerBound, best * (1 + 1e-9)) << i;
    solved += !found.columns.empty();
    for (const HybridColumns::Column &column : found.columns)
      interleaved += column.plan.chunks > 1;
  }
  EXPECT_GT(solved, 50);
  EXPECT_GT(interleaved, 10);
}

/// Each type has its own cuts, and what they exchange waits for both.
TEST(HybridColumns, CutUnitsEachInItsOwnWay) {
  HybridProblem problem;
  ParameterElements unit;
  unit.trained = 10;
  problem.parameters.units.assign(6, unit);
  problem.globalBatch = 30;
  problem.zeroStages = {1};
  for (int count : {2, 3}) {
    HybridProblem::DeviceType type;
    type.name = "type" + std::to_string(count);
    type.count = count;
    // Too little for one device.
    type.memory = count == 2 ? 700 : 500;
    type.modes = {{1, 1, RecomputePolicy::Keep, {}}};
    type.modes[0].units.assign(6, {1.0 * count, 2.0 * count, 0, 1, 1});
    problem.types.push_back(type);
  }
  problem.links.assign(4, {{0.001, 1e6}, true});
  ASSERT_EQ(problem.check(), "");
  HybridColumns found = searchHybridColumns(problem);
  ASSERT_EQ(found.columns.size(), 2u);
  EXPECT_EQ(found.columns[0].plan.groups.size(), 2u);
  EXPECT_EQ(found.columns[1].plan.groups.size(), 3u);
  // Both are as fast as the other.
  EXPECT_NEAR(found.columns[0].problem.globalBatch, 15, 1);
  PipelineSimulation together = simulatePipelines(found.getSolved());
  for (const HybridColumns::Column &column : found.columns)
    EXPECT_LE(simulatePipeline(column.problem, column.plan).seconds,
              together.seconds);
  // ZeRO that meets in every micro-batch is none for columns, nor a single
  // type.
  problem.zeroStages = {2, 3};
  EXPECT_TRUE(searchHybridColumns(problem).columns.empty());
  EXPECT_TRUE(std::isinf(searchHybridColumns(problem).lowerBound));
  problem.zeroStages = {1};
  EXPECT_TRUE(searchHybridColumns(problem.restrictTo({0})).columns.empty());
}

//===- ShareSearchTest.cpp - Who holds how much of the state --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The search of shares against an enumeration: a grid of all shares, and from
// its best points steps that are halved again and again.
//
//===----------------------------------------------------------------------===//

#include "MetamorphicClusters.h"
#include "Oracle.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

/// For the job of all ranks of a cluster.
class ShareOracle {
public:
  ShareOracle(const RandomCluster &test, int stage, int64_t globalBatch)
      : test(test), stage(stage), globalBatch(globalBatch) {}

  /// The least time found; infinite if there is no plan.
  double run();

private:
  using Shares = std::vector<double>;
  struct Point {
    Shares shares;
    double seconds;
  };

  double solve(const Shares &shares) const;
  void tryGrid(Shares &shares, size_t rank, int left, int parts);
  void refine(Point &point, double step) const;

  const RandomCluster &test;
  int stage;
  int64_t globalBatch;
  std::vector<Point> points;
};

double ShareOracle::solve(const Shares &shares) const {
  std::string error;
  auto problem = makeBatchProblem(test.cluster, test.model, stage, globalBatch,
                                  shares, error);
  // What holds more state than there is memory is no plan, with or without
  // samples.
  if (!problem)
    return HUGE_VAL;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const auto &type = problem->types[test.cluster.ranks[rank].type];
    if (shares[rank] > 0 && type.fixedBytes > type.memoryBytes)
      return HUGE_VAL;
  }
  return exact().solve(*problem, error)->seconds;
}

void ShareOracle::tryGrid(Shares &shares, size_t rank, int left, int parts) {
  if (rank + 1 == shares.size()) {
    shares[rank] = double(left) / parts;
    points.push_back({shares, solve(shares)});
    return;
  }
  for (int part = 0; part <= left; ++part) {
    shares[rank] = double(part) / parts;
    tryGrid(shares, rank + 1, left - part, parts);
  }
}

void ShareOracle::refine(Point &point, double step) const {
  for (bool improved = true; improved;) {
    improved = false;
    for (size_t from = 0; from < point.shares.size(); ++from)
      for (size_t to = 0; to < point.shares.size(); ++to) {
        Shares shares = point.shares;
        if (from == to || shares[from] < step)
          continue;
        shares[from] -= step;
        shares[to] += step;
        double seconds = solve(shares);
        if (seconds < point.seconds * (1 - 1e-9)) {
          point = {shares, seconds};
          improved = true;
        }
      }
  }
}

double ShareOracle::run() {
  size_t ranks = test.cluster.ranks.size();
  int parts = ranks == 2 ? 64 : ranks == 3 ? 24 : 10;
  Shares shares(ranks);
  tryGrid(shares, 0, parts, parts);
  shares.assign(ranks, 1.0 / double(ranks));
  points.push_back({shares, solve(shares)});
  std::sort(points.begin(), points.end(), [](const Point &a, const Point &b) {
    return a.seconds < b.seconds;
  });
  points.resize(std::min<size_t>(points.size(), 4));
  double least = HUGE_VAL;
  for (Point &point : points)
    if (std::isfinite(point.seconds)) {
      for (double step = 0.5 / parts; step > 1e-4; step /= 2)
        refine(point, step);
      least = std::min(least, point.seconds);
    }
  return least;
}

/// The shares of `clusters` random jobs of at most four devices.
void compare(unsigned seed, int clusters, int stage) {
  std::mt19937 random(seed);
  int planned = 0;
  for (int i = 0; i < clusters; ++i) {
    RandomCluster test = makeUnevenCluster(random, 4, 2);
    int64_t globalBatch = 1 + random() % 24;
    // Links of two directions, so that gathers and reductions differ.
    if (random() % 3 == 0 && !test.cluster.links.empty())
      test.cluster.links.begin()->second.bandwidth *= 3;
    if (test.cluster.ranks.size() < 2 || test.cluster.ranks.size() > 4)
      continue;
    double least = ShareOracle(test, stage, globalBatch).run();
    std::string error;
    std::vector<double> state;
    auto problem = poseProblem(test.cluster, test.model, stage,
                               Sharding::Memory, globalBatch, state, error);
    std::string what = "seed " + std::to_string(seed) + ", cluster " +
                       std::to_string(i) + ", " + std::to_string(globalBatch) +
                       " samples\n" + describeCluster(test.cluster);
    if (!problem) {
      EXPECT_FALSE(std::isfinite(least)) << error << ": " << what;
      continue;
    }
    ++planned;
    EXPECT_LE(exact().solve(*problem, error)->seconds, least * 1.01) << what;
  }
  EXPECT_GT(planned, clusters / 4);
}

class ShareSearchTest : public testing::TestWithParam<int> {};

TEST_P(ShareSearchTest, FindsWhatEnumerationFinds) {
  int stage = GetParam();
  compare(chooseSeed(30) + stage, countClusters(400), stage);
}

INSTANTIATE_TEST_SUITE_P(Stages, ShareSearchTest, testing::Values(1, 2, 3));

} // namespace

//===- PlacementTest.cpp - Placements against all that there are ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Placement/PlacementSearch.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace poplar;

namespace {

/// Links that are all different, of few values, or by place in the plane.
PlacementProblem randomProblem(std::mt19937 &random, int devices, int stages) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  PlacementProblem problem;
  problem.devices = devices;
  problem.stages = stages;
  problem.cDP = below(8) / 2.0;
  problem.cPP = below(8) / 2.0;
  problem.delay.assign(devices * devices, 0);
  problem.bandwidth.assign(devices * devices, 1);
  int kind = below(3);
  std::vector<double> x, y;
  for (int i = 0; i < devices; ++i) {
    x.push_back(below(100) / 100.0);
    y.push_back(below(100) / 100.0);
  }
  for (int i = 0; i < devices; ++i)
    for (int j = 0; j < i; ++j) {
      double delay = below(100) / 100.0, bandwidth = 1 + below(100) / 10.0;
      if (kind == 1) {
        delay = below(2);
        bandwidth = below(3) ? 1 : 10;
      } else if (kind == 2) {
        delay = std::hypot(x[i] - x[j], y[i] - y[j]);
        bandwidth = 1 / (0.1 + delay);
      }
      problem.delay[i * devices + j] = problem.delay[j * devices + i] = delay;
      problem.bandwidth[i * devices + j] = problem.bandwidth[j * devices + i] =
          bandwidth;
    }
  return problem;
}

/// The cost by its definition: every matching, every order.
double defineCost(const PlacementProblem &problem,
                  const std::vector<std::vector<int>> &groups) {
  double dataParallel = 0;
  for (const std::vector<int> &group : groups)
    for (int d : group) {
      double sum = 0;
      for (int e : group)
        if (d != e) {
          int at = d * problem.devices + e;
          sum += 2 * (problem.delay[at] +
                      problem.cDP / (group.size() * problem.bandwidth[at]));
        }
      dataParallel = std::max(dataParallel, sum);
    }
  size_t count = groups.size();
  std::vector<double> w(count * count);
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < count; ++j) {
      std::vector<int> matched = groups[j];
      std::sort(matched.begin(), matched.end());
      double best = std::numeric_limits<double>::infinity();
      do {
        double slowest = 0;
        for (size_t k = 0; k < matched.size(); ++k) {
          int at = groups[i][k] * problem.devices + matched[k];
          slowest =
              std::max(slowest, 2 * (problem.delay[at] +
                                     problem.cPP / problem.bandwidth[at]));
        }
        best = std::min(best, slowest);
      } while (std::next_permutation(matched.begin(), matched.end()));
      w[i * count + j] = best;
    }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  double shortest = std::numeric_limits<double>::infinity();
  do {
    double length = 0;
    for (size_t i = 0; i + 1 < count; ++i)
      length += w[order[i] * count + order[i + 1]];
    shortest = std::min(shortest, length);
  } while (std::next_permutation(order.begin(), order.end()));
  return dataParallel + shortest;
}

/// The least cost over all partitions into groups.
double bruteForce(const PlacementProblem &problem) {
  std::vector<std::vector<int>> groups(problem.stages);
  double best = std::numeric_limits<double>::infinity();
  auto place = [&](auto &&place, int d) -> void {
    if (d == problem.devices) {
      best = std::min(best, defineCost(problem, groups));
      return;
    }
    for (std::vector<int> &group : groups) {
      bool isEmpty = group.empty();
      if (group.size() == static_cast<size_t>(problem.pipelines()))
        continue;
      group.push_back(d);
      place(place, d + 1);
      group.pop_back();
      if (isEmpty) // Groups have no names.
        break;
    }
  };
  place(place, 0);
  return best;
}

PlacementProblem smallProblem() {
  std::mt19937 random(1);
  PlacementProblem problem = randomProblem(random, 6, 3);
  problem.cDP = problem.cPP = 2;
  return problem;
}

TEST(PlacementTest, FindsTheLeastCostOfSmallProblems) {
  std::mt19937 random(20);
  const int sizes[][2] = {{4, 1}, {4, 2}, {4, 4}, {6, 2},
                          {6, 3}, {8, 2}, {8, 4}};
  for (int trial = 0; trial < 700; ++trial) {
    const int *size = sizes[trial % 7];
    PlacementProblem problem = randomProblem(random, size[0], size[1]);
    ASSERT_EQ(problem.check(), "");
    double least = bruteForce(problem);
    Placement placement = searchPlacement(problem);
    EXPECT_EQ(placement.verify(problem), "");
    EXPECT_NEAR(placement.seconds(), least, 1e-9 * least)
        << "trial " << trial << ", " << size[0] << " devices, " << size[1]
        << " stages";
  }
}

TEST(PlacementTest, NoPlacementCostsLessThanTheBound) {
  std::mt19937 random(30);
  const int sizes[][2] = {{4, 2}, {5, 5}, {6, 1}, {6, 2}, {6, 3}, {8, 4}};
  int reached = 0, trials = 3000;
  for (int trial = 0; trial < trials; ++trial) {
    const int *size = sizes[trial % 6];
    PlacementProblem problem = randomProblem(random, size[0], size[1]);
    double least = bruteForce(problem), bound = boundPlacement(problem);
    EXPECT_LE(bound, least) << "trial " << trial;
    EXPECT_GE(bound, 0);
    reached += bound > 0.999999 * least;
  }
  // It is of use: not merely zero.
  EXPECT_GT(reached, trials / 4);
}

TEST(PlacementTest, ArrangesGroupsByTheDefinitionOfTheCost) {
  std::mt19937 random(40);
  for (int trial = 0; trial < 1000; ++trial) {
    int stages = 1 + random() % 5, pipelines = 1 + random() % 4;
    PlacementProblem problem =
        randomProblem(random, stages * pipelines, stages);
    std::vector<int> devices(problem.devices);
    std::iota(devices.begin(), devices.end(), 0);
    std::shuffle(devices.begin(), devices.end(), random);
    std::vector<std::vector<int>> groups(stages);
    for (int i = 0; i < problem.devices; ++i)
      groups[i / pipelines].push_back(devices[i]);
    Placement placement = arrange(problem, groups);
    EXPECT_EQ(placement.verify(problem), "");
    EXPECT_NEAR(placement.seconds(), defineCost(problem, groups), 1e-12);
  }
}

TEST(PlacementTest, ManyStagesAreOrderedAlongALine) {
  // Beyond the exact path: 40 groups of 2 devices on a line, shuffled.
  std::mt19937 random(50);
  std::vector<int> position(40);
  std::iota(position.begin(), position.end(), 0);
  std::shuffle(position.begin(), position.end(), random);
  PlacementProblem problem;
  problem.devices = 80;
  problem.stages = 40;
  problem.bandwidth.assign(6400, 1);
  std::vector<std::vector<int>> groups(40);
  for (int i = 0; i < 80; ++i) {
    groups[i / 2].push_back(i);
    for (int j = 0; j < 80; ++j)
      problem.delay.push_back(std::abs(position[i / 2] - position[j / 2]));
  }
  ASSERT_EQ(problem.check(), "");
  EXPECT_DOUBLE_EQ(arrange(problem, groups).pipeline, 2 * 39);
}

TEST(PlacementTest, ChecksProblems) {
  EXPECT_EQ(smallProblem().check(), "");
  auto check = [](auto &&damage) {
    PlacementProblem problem = smallProblem();
    damage(problem);
    return problem.check();
  };
  using Problem = PlacementProblem;
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(check([](Problem &p) { p = {}; }), "there are no devices");
  EXPECT_EQ(check([](Problem &p) { p.devices = 5000; }),
            "there are 5000 devices, more than 4096");
  EXPECT_EQ(check([](Problem &p) { p.delay.pop_back(); }),
            "the matrices of delays and bandwidths must have 6 rows and "
            "columns");
  EXPECT_EQ(check([](Problem &p) { p.stages = 0; }),
            "there must be at least one stage, not 0");
  EXPECT_EQ(check([](Problem &p) { p.stages = 4; }),
            "6 devices cannot be shared equally among 4 stages");
  EXPECT_EQ(check([](Problem &p) { p.stages = 7; }),
            "6 devices cannot be shared equally among 7 stages");
  EXPECT_EQ(check([&](Problem &p) { p.cDP = nan; }),
            "c_DP must be finite and not negative");
  EXPECT_EQ(check([](Problem &p) { p.cPP = -1; }),
            "c_PP must be finite and not negative");
  EXPECT_EQ(check([](Problem &p) { p.delay[2] = -1; }),
            "delay between devices 0 and 2 must be finite and not negative");
  EXPECT_EQ(check([](Problem &p) { p.bandwidth[13] = 0; }),
            "bandwidth between devices 2 and 1 must be finite and above 0");
  EXPECT_EQ(check([](Problem &p) { p.delay[1] += 1; }),
            "delay between devices 0 and 1 differs by direction; give both "
            "the greater");
  EXPECT_EQ(check([](Problem &p) { p.bandwidth[1] += 1; }),
            "bandwidth between devices 0 and 1 differs by direction; give "
            "both the smaller");
  EXPECT_EQ(check([](Problem &p) { p.bandwidth[1] = p.bandwidth[6] = 1e-320; }),
            "the time of a message between devices 0 and 1 is not finite");
  // Diagonals are not read.
  EXPECT_EQ(check([&](Problem &p) { p.delay[0] = p.bandwidth[7] = nan; }), "");
}

TEST(PlacementTest, VerifiesPlacements) {
  PlacementProblem problem = smallProblem();
  Placement good = searchPlacement(problem);
  EXPECT_EQ(good.verify(problem), "");
  auto verify = [&](auto &&damage) {
    Placement placement = good;
    damage(placement);
    return placement.verify(problem);
  };
  EXPECT_EQ(verify([](Placement &p) { p.stages.pop_back(); }),
            "has 2 stages, not 3");
  EXPECT_EQ(verify([](Placement &p) { p.stages[1].pop_back(); }),
            "stage 1 has 1 devices, not 2");
  EXPECT_EQ(verify([](Placement &p) { p.stages[2][0] = 6; }),
            "stage 2 has device 6, but there are 6");
  EXPECT_EQ(verify([](Placement &p) { p.stages[2][0] = -1; }),
            "stage 2 has device -1, but there are 6");
  std::string twice = verify([](Placement &p) { p.stages[1] = p.stages[0]; });
  EXPECT_NE(twice.find("which has a place already"), std::string::npos)
      << twice;
  EXPECT_NE(verify([](Placement &p) {
              p.dataParallel *= 0.9;
            }).find("of data parallelism, but takes"),
            std::string::npos);
  EXPECT_NE(verify([](Placement &p) {
              p.pipeline = NAN;
            }).find("of pipeline, but takes"),
            std::string::npos);
}

TEST(PlacementTest, TheSameProblemHasTheSamePlacement) {
  std::mt19937 random(60);
  PlacementProblem problem = randomProblem(random, 24, 4);
  EXPECT_EQ(searchPlacement(problem).stages, searchPlacement(problem).stages);
}

} // namespace

//===- GeoSearchTest.cpp - Plans over distant devices against all ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Geo/GeoSearch.h"
#include "GeoOracle.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstdio>
#include <limits>

using namespace poplar;

/// Enough for problems of five devices.
static constexpr int64_t fewDevices = 200000;

TEST(GeoSearch, FindsTheLeastOfAllPlans) {
  std::mt19937 random(1);
  int solved = 0, piped = 0, parallel = 0, gpipe = 0, leftOut = 0, unlike = 0,
      slower = 0;
  for (int i = 0; i < 1000; ++i) {
    GeoProblem problem = makeRandomGeo(random);
    ASSERT_EQ(problem.check(), "") << i;
    double least = searchAllGeoPlans(problem);
    GeoSearchResult result = searchGeoPlan(problem, fewDevices);
    ASSERT_EQ(result.plan.has_value(), std::isfinite(least)) << i;
    if (!result.plan) {
      EXPECT_NE(result.error.find("exceeds the memory"), std::string::npos);
      continue;
    }
    const GeoPlan &plan = *result.plan;
    EXPECT_EQ(plan.verify(problem), "") << i;
    EXPECT_NEAR(defineGeoCost(problem, plan), plan.seconds, 1e-9 * plan.seconds)
        << i;
    EXPECT_NEAR(plan.seconds, least, 1e-9 * least) << i;
    EXPECT_LE(result.lowerBound, least) << i;
    ++solved;
    piped += plan.stages.size() > 1;
    parallel += plan.pipelines() > 1;
    gpipe += plan.schedule == PipelineSchedule::GPipe;
    leftOut += plan.stages.size() * plan.pipelines() < problem.devices.size();
    for (int64_t share : plan.microBatches)
      if (share != plan.microBatches[0]) {
        ++unlike;
        break;
      }
    for (const std::vector<int> &modes : plan.getModes(problem))
      for (int mode : modes)
        slower += mode > 0;
  }
  // The problems are of all kinds.
  EXPECT_GT(solved, 800);
  EXPECT_GT(piped, 150);
  EXPECT_GT(parallel, 150);
  EXPECT_GT(gpipe, 10);
  EXPECT_GT(leftOut, 50);
  EXPECT_GT(unlike, 50);
  EXPECT_GT(slower, 10);
}

TEST(GeoSearch, TakesLessTimeForFewDevices) {
  std::mt19937 random(5);
  for (int i = 0; i < 30; ++i) {
    GeoProblem problem = makeRandomGeo(random);
    auto devices = static_cast<int64_t>(problem.devices.size());
    GeoSearchResult result = searchGeoPlan(problem);
    double least = searchAllGeoPlans(problem);
    if (result.plan) {
      EXPECT_NEAR(result.plan->seconds, least, 1e-9 * least) << i;
    }
    // Starts and what is improved last are not cut short.
    EXPECT_LE(result.effort, 2 * geoEffortOfFew * devices * devices * devices)
        << i;
  }
}

TEST(GeoSearch, SimulationIsCloseToTheClosedForm) {
  std::mt19937 random(2);
  double largest = 0;
  for (int i = 0; i < 300; ++i) {
    GeoProblem problem = makeRandomGeo(random);
    problem.microBatches += 20;
    GeoSearchResult result = searchGeoPlan(problem, fewDevices / 10);
    if (!result.plan)
      continue;
    PipelineSimulation simulation = simulateGeoPlan(problem, *result.plan);
    ASSERT_EQ(simulation.lanes.size(), result.plan->pipelines());
    EXPECT_LE(result.lowerBound, simulation.seconds) << i;
    double gap = simulation.seconds / result.plan->seconds - 1;
    largest = std::max(largest, std::abs(gap));
    if (result.plan->stages.size() == 1) {
      EXPECT_NEAR(gap, 0, 1e-9) << i;
    }
  }
  EXPECT_LT(largest, 0.13);
  std::printf("largest gap %.1f %%\n", 100 * largest);
}

TEST(GeoSearch, TheSameProblemHasTheSamePlan) {
  std::mt19937 random(3);
  GeoProblem problem = makeRandomGeo(random);
  GeoSearchResult first = searchGeoPlan(problem, fewDevices),
                  second = searchGeoPlan(problem, fewDevices);
  ASSERT_TRUE(first.plan && second.plan);
  EXPECT_EQ(first.plan->stages, second.plan->stages);
  EXPECT_EQ(first.plan->cuts, second.plan->cuts);
}

TEST(GeoSearch, KeepsTheStagesThatAreAskedFor) {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    GeoProblem problem = makeRandomGeo(random);
    int most = std::min<int>(problem.units(),
                             static_cast<int>(problem.devices.size()));
    problem.stages = 1 + static_cast<int>(random() % most);
    GeoSearchResult result = searchGeoPlan(problem, fewDevices / 10);
    if (result.plan) {
      EXPECT_EQ(result.plan->verify(problem), "");
    }
  }
}

/// Two kinds of devices on three nodes, five units.
static GeoProblem makeProblem() {
  GeoProblem problem;
  ParameterElements unit;
  unit.trained = 100;
  problem.parameters.units.assign(5, unit);
  problem.boundaryBytes = 10;
  problem.microBatches = 8;
  for (double seconds : {1.0, 2.0}) {
    GeoProblem::Kind kind;
    kind.name = "kind";
    kind.memory = 1000;
    kind.state.replicated = 1;
    kind.modes.resize(1);
    kind.modes[0].forward.assign(5, seconds);
    kind.modes[0].backward.assign(5, 2 * seconds);
    kind.modes[0].savedBytes.assign(5, 10);
    kind.modes[0].workBytes.assign(5, 1);
    problem.kinds.push_back(kind);
  }
  problem.nodes.assign(3, {"node", {0.01, 1000}});
  problem.devices = {{0, 0}, {0, 0}, {1, 1}, {1, 2}};
  problem.links.assign(9, {0.1, 100});
  return problem;
}

TEST(GeoProblem, IsChecked) {
  EXPECT_EQ(makeProblem().check(), "");
  auto check = [](auto &&damage) {
    GeoProblem problem = makeProblem();
    damage(problem);
    return problem.check();
  };
  using Problem = GeoProblem;
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(check([](Problem &p) { p.parameters.units.clear(); }),
            "parameters: has no units");
  EXPECT_EQ(check([](Problem &p) { p.parameters.tied.trained = 101; }),
            "parameters: tied: the first and the last unit have fewer");
  EXPECT_EQ(check([](Problem &p) { p.microBatches = 0; }),
            "microBatches must be at least 1");
  EXPECT_EQ(check([&](Problem &p) { p.boundaryBytes = nan; }),
            "gradientBytes, parameterBytes and boundaryBytes must be finite "
            "and not negative");
  EXPECT_EQ(check([](Problem &p) { p.schedules.clear(); }),
            "schedules: is empty");
  EXPECT_EQ(check([](Problem &p) { p.kinds[1].memory = -1; }),
            "kinds[1].memory must be finite and not negative");
  EXPECT_EQ(check([](Problem &p) { p.kinds[1].modes.clear(); }),
            "kinds[1].modes: is empty");
  EXPECT_EQ(check([](Problem &p) { p.kinds[0].modes[0].forward.pop_back(); }),
            "kinds[0].modes[0].forward: expected one for each unit");
  EXPECT_EQ(check([&](Problem &p) { p.kinds[0].modes[0].backward[3] = nan; }),
            "kinds[0].modes[0].backward[3] must be finite and not negative");
  EXPECT_EQ(check([](Problem &p) {
              p.kinds[0].modes.push_back(p.kinds[0].modes[0]);
              p.kinds[0].modes[1].forward[2] = 0.5;
            }),
            "kinds[0].modes[1].forward[2]: a mode comes after those that are "
            "faster");
  EXPECT_EQ(check([](Problem &p) { p.devices[3].node = 3; }),
            "devices[3]: there is no node 3");
  EXPECT_EQ(check([](Problem &p) { p.devices[3].kind = -1; }),
            "devices[3]: there is no kind -1");
  EXPECT_EQ(check([](Problem &p) { p.nodes[0].inside.bandwidth = 0; }),
            "nodes[0]: its devices have no link");
  EXPECT_EQ(check([](Problem &p) { p.links.pop_back(); }),
            "links: expected one for each pair of nodes");
  EXPECT_EQ(check([](Problem &p) { p.links[1].latency = 1; }),
            "links: between nodes 0 and 1 they differ by direction; give both "
            "the slower");
  EXPECT_EQ(check([](Problem &p) { p.links[7].bandwidth = 0; }),
            "links: between nodes 1 and 2 the delay must be finite and not "
            "negative, the bandwidth above 0");
  EXPECT_EQ(check([](Problem &p) { p.stages = 5; }),
            "stages: 5 cannot be made of 5 units on 4 devices");
}

TEST(GeoPlan, IsVerified) {
  GeoProblem problem = makeProblem();
  problem.kinds[1].memory = 300;
  GeoPlan good;
  good.stages = {{0, 1}, {2, 3}};
  good.cuts = {0, 3, 5};
  good.microBatches = {4, 4};
  good.seconds = good.predict(problem);
  EXPECT_EQ(good.verify(problem), "");
  EXPECT_DOUBLE_EQ(good.seconds, defineGeoCost(problem, good));
  auto verify = [&](auto &&damage) {
    GeoPlan plan = good;
    damage(plan);
    return plan.verify(problem);
  };
  using Plan = GeoPlan;
  EXPECT_EQ(verify([](Plan &p) { p.stages.clear(); }), "stages: is empty");
  EXPECT_EQ(verify([](Plan &p) { p.stages[1].pop_back(); }),
            "stages[1]: has not as many devices as stage 0");
  EXPECT_EQ(verify([](Plan &p) { p.stages[1][0] = 4; }),
            "stages[1]: there is no device 4");
  EXPECT_EQ(verify([](Plan &p) { p.stages[1][0] = 1; }),
            "stages[1]: device 1 has a place already");
  EXPECT_EQ(verify([](Plan &p) { p.cuts.back() = 4; }),
            "cuts: do not part the units into 2 stages");
  EXPECT_EQ(verify([](Plan &p) { p.cuts[1] = 0; }),
            "cuts[0]: stage 0 has no units");
  EXPECT_EQ(verify([](Plan &p) { p.microBatches[1] = 3; }),
            "microBatches: add up to 7, not 8");
  EXPECT_EQ(verify([](Plan &p) { p.microBatches = {8, 0}; }),
            "microBatches[1]: must be at least 1");
  EXPECT_EQ(verify([](Plan &p) { p.cuts[1] = 2; }),
            "stages[1]: exceeds the memory of device 2");
  std::string claim = verify([](Plan &p) { p.seconds *= 0.9; });
  EXPECT_NE(claim.find("seconds: claims"), std::string::npos) << claim;
  problem.stages = 1;
  EXPECT_EQ(good.verify(problem), "stages: there are 2, not 1");
  problem.stages = 0;
  problem.schedules = {PipelineSchedule::GPipe};
  EXPECT_EQ(good.verify(problem), "schedule: 1f1b is none of the choices");
}

//===- RecomputedLayersTest.cpp - Recomputation of some layers ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Cluster/RecomputedLayers.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include "Poplar/Planner/Zero/ZeroBound.h"
#include "RandomCluster.h"
#include <cmath>
#include <functional>
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

TEST(RecomputedLayersTest, ReadsAndWritesText) {
  EXPECT_EQ(parseRecomputation("keep"), Recomputation());
  EXPECT_EQ(parseRecomputation("recompute-unit"),
            Recomputation(RecomputePolicy::Unit));
  EXPECT_EQ(parseRecomputation("recompute-unit:12"),
            Recomputation(RecomputePolicy::Unit, 12));
  EXPECT_EQ(toString(Recomputation(RecomputePolicy::Attention, 3)),
            "recompute-attention:3");
  for (const char *text :
       {"keep:1", "recompute-unit:", "recompute-unit:0", "recompute-unit:-1",
        "recompute-unit:01", "recompute-unit:1x", "recompute-unit:99999999999",
        "unit:1", ":1", ""})
    EXPECT_FALSE(parseRecomputation(text)) << text;
}

/// The example of RecomputedLayers.h, in which layers take equally long and the
/// other units a fifth of what is added.
TEST(RecomputedLayersTest, IsBetweenTheProfiles) {
  DeviceProfile keep = makeDeviceProfile(0, 0, RecomputePolicy::Keep),
                all = makeDeviceProfile(0, 0, RecomputePolicy::Unit);
  keep.memory = DeviceProfile::Memory{16000, 460};
  all.memory = DeviceProfile::Memory{16100, 200};
  keep.microBatches = {1, 2};
  keep.seconds = {1, 2};
  all.microBatches = {1, 2, 8};
  all.seconds = {1.5, 3, 12};
  RecomputedLayers layers = {RecomputePolicy::Unit,
                             {{0.2, 80}, {0.2, 80}, {0.2, 80}, {0.2, 80}}};
  const int64_t bytes[] = {460, 380, 300, 220, 200};
  for (int64_t count = 1; count <= 4; ++count) {
    std::optional<DeviceProfile> some = layers.derive(keep, all, count);
    ASSERT_TRUE(some);
    EXPECT_EQ(some->recompute, Recomputation(RecomputePolicy::Unit, count));
    EXPECT_EQ(some->memory->perSample, bytes[count]);
    EXPECT_EQ(some->memory->fixed, 16100);
    ASSERT_EQ(some->microBatches, (std::vector<int64_t>{1, 2, 8}));
    double share = 0.2 * static_cast<double>(count);
    EXPECT_NEAR(some->seconds[0], 1 + share * 0.5, 1e-12);
    EXPECT_NEAR(some->seconds[1], 2 + share, 1e-12);
    // Keeping is known to take 4 s less for 8 samples, in proportion.
    EXPECT_NEAR(some->seconds[2], 8 + share * 4, 1e-12);
  }
  all.memory.reset();
  EXPECT_FALSE(layers.derive(keep, all, 1));
}

/// The least time of all that types may recompute, with all devices and equal
/// shares of the state.
double tryAll(const ClusterView &cluster, const ModelFacts &model,
              const PlanChoices &choices, int stage) {
  double least = HUGE_VAL;
  std::string error;
  auto exact = makePolicy("exact", error);
  std::vector<int> counts = cluster.countRanks();
  std::function<void(size_t, const ClusterView &)> choose =
      [&](size_t type, const ClusterView &view) {
        if (type == counts.size()) {
          std::vector<double> state(view.ranks.size(), 1.0);
          auto problem = makeBatchProblem(view, model, stage,
                                          choices.globalBatch, state, error, 1);
          if (auto best =
                  problem ? exact->solve(*problem, error) : std::nullopt)
            least = std::min(least, best->seconds);
          return;
        }
        if (counts[type] == 0) {
          choose(type + 1, view);
          return;
        }
        auto index = static_cast<int>(type);
        const DeviceProfile *keep = view.findProfile(index, stage, "",
                                                     RecomputePolicy::Keep),
                            *all = view.findProfile(index, stage, "",
                                                    RecomputePolicy::Unit);
        for (const DeviceProfile *whole : {keep, all})
          if (whole) {
            ClusterView other = view;
            other.types[type].recompute = whole->recompute;
            choose(type + 1, other);
          }
        for (const RecomputedLayers &own : choices.layers[type])
          for (int64_t count = 1; keep && all && count <= own.countLayers();
               ++count) {
            ClusterView other = view;
            other.profiles.push_back(*own.derive(*keep, *all, count));
            other.types[type].recompute = other.profiles.back().recompute;
            choose(type + 1, other);
          }
      };
  choose(0, cluster);
  return least;
}

TEST(RecomputedLayersTest, ChoosesTheFastest) {
  std::mt19937 random(7);
  int better = 0, plans = 0;
  for (int round = 0; round < 300; ++round) {
    RandomCluster test = makeRandomCluster(random);
    PlanChoices choices;
    choices.globalBatch = 1 + random() % 20;
    choices.leaveOut = false;
    choices.stages = {static_cast<int>(random() % 4)};
    choices.shardings = {Sharding::Equal};
    std::string error;
    auto exact = makePolicy("exact", error);
    PlanSearchResult whole =
        searchPlans(test.cluster, test.model, *exact, choices);
    for (size_t type = 0; type < test.cluster.types.size(); ++type) {
      RecomputedLayers own;
      for (int i = 0; i < 5; ++i)
        own.layers.push_back({0.1 + 0.02 * static_cast<double>(random() % 4),
                              static_cast<int64_t>(100 + random() % 500)});
      choices.layers.push_back({own});
    }
    PlanSearchResult some =
        searchPlans(test.cluster, test.model, *exact, choices);
    double least =
        tryAll(test.cluster, test.model, choices, choices.stages.front());
    ASSERT_EQ(some.best() != nullptr, std::isfinite(least)) << round;
    if (!some.best())
      continue;
    ++plans;
    const Allocation &found = some.best()->allocation;
    EXPECT_EQ(found.verify(some.best()->problem), "") << round;
    EXPECT_NEAR(found.seconds, least, 1e-9 * least) << round;
    EXPECT_LE(some.lowerBound, found.seconds * (1 + 1e-9));
    ASSERT_TRUE(whole.best());
    EXPECT_LE(found.seconds, whole.best()->allocation.seconds * (1 + 1e-9));
    better += found.seconds < whole.best()->allocation.seconds * (1 - 1e-6);
  }
  EXPECT_GT(plans, 100);
  EXPECT_GT(better, 10);
}

/// No sample fits beside what a device that keeps everything keeps: it has no
/// times, between which others could be.
TEST(RecomputedLayersTest, NeedsTimes) {
  ClusterView cluster;
  cluster.types = {makeDeviceType("a", 20000)};
  cluster.nodes = {{"n", 0, 1}};
  cluster.ranks = {{0, 0}};
  cluster.profiles = {makeDeviceProfile(0, 0, RecomputePolicy::Keep),
                      makeDeviceProfile(0, 0, RecomputePolicy::Unit)};
  cluster.profiles[0].microBatches.clear();
  cluster.profiles[0].seconds.clear();
  ModelFacts model;
  model.parameters.trained = 1000;
  PlanChoices choices;
  choices.stages = {0};
  choices.globalBatch = 4;
  choices.layers = {{{RecomputePolicy::Unit, {{0.5, 100}, {0.5, 100}}}}};
  std::string error;
  PlanSearchResult result =
      searchPlans(cluster, model, *makePolicy("exact", error), choices);
  ASSERT_TRUE(result.best());
  EXPECT_EQ(result.best()->recompute[0], RecomputePolicy::Unit);
}

} // namespace

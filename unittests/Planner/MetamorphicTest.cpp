//===- MetamorphicTest.cpp - Plans do not get worse -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MetamorphicClusters.h"
#include "Oracle.h"
#include "Poplar/Planner/Zero/PlanSearch.h"
#include <gtest/gtest.h>
#include <sstream>

using namespace poplar;
using namespace poplar::test;

static std::optional<double> planSeconds(const RandomCluster &test,
                                         const PlanChoices &choices) {
  PlanSearchResult result =
      searchPlans(test.cluster, test.model, exact(), choices);
  if (!result.best())
    return std::nullopt;
  return result.best()->allocation.seconds;
}

/// For messages: what was found.
static std::string describePlans(const RandomCluster &test,
                                 const PlanChoices &choices) {
  std::ostringstream text;
  PlanSearchResult result =
      searchPlans(test.cluster, test.model, exact(), choices);
  text << "not tried: " << result.untried.describe();
  for (const PlanOutcome &outcome : result.outcomes) {
    text << "\n  stage " << outcome.stage << ", " << toString(outcome.sharding)
         << ": ";
    if (!outcome.best) {
      text << outcome.error;
      continue;
    }
    text << outcome.best->allocation.seconds << " s, ranks";
    for (size_t i = 0; i < outcome.best->ranks.size(); ++i)
      text << " " << outcome.best->ranks[i] << " (" << outcome.best->state[i]
           << ")";
    for (const Recomputation &recompute : outcome.best->recompute)
      text << " " << toString(recompute);
  }
  return text.str();
}

/// Makes `clusters` random clusters, and each change of them.
static void checkZero(unsigned seed, int clusters, int mostNodes,
                      int mostDevices, const std::vector<int> &stages) {
  std::mt19937 random(seed);
  for (int i = 0; i < clusters; ++i) {
    RandomCluster test = makeUnevenCluster(random, mostNodes, mostDevices);
    PlanChoices choices;
    choices.globalBatch = 1 + random() % (4 * test.cluster.ranks.size() + 8);
    choices.stages = stages;
    // Which nodes share a shard group is up to their order.
    choices.shardings = {Sharding::Equal, Sharding::Memory};
    std::optional<double> before;
    if (isChosen(i))
      before = planSeconds(test, choices);
    for (const ClusterChange &change : getClusterChanges()) {
      auto changed = change.apply(test.cluster, random);
      if (!changed || !before)
        continue;
      RandomCluster better = {*changed, test.model};
      std::optional<double> after = planSeconds(better, choices);
      std::string what = std::string(change.name) + ", seed " +
                         std::to_string(seed) + ", cluster " +
                         std::to_string(i) + ", " +
                         std::to_string(choices.globalBatch) + " samples\n" +
                         describeCluster(test.cluster);
      ASSERT_TRUE(after) << "no plan any more: " << what;
      EXPECT_LE(*after, *before * (1 + change.tolerance))
          << what << "\nbefore: " << describePlans(test, choices)
          << "\nafter: " << describePlans(better, choices);
      if (change.isSame) {
        EXPECT_GE(*after, *before * (1 - change.tolerance)) << what;
      }
    }
  }
}

TEST(MetamorphicTest, SmallClusters) {
  checkZero(chooseSeed(1), countClusters(60), 4, 2, {0, 1, 2, 3});
}

TEST(MetamorphicTest, StagesByThemselves) {
  for (int stage = 0; stage <= 3; ++stage)
    checkZero(chooseSeed(10) + stage, countClusters(15), 4, 3, {stage});
}

TEST(MetamorphicTest, LargerClusters) {
  checkZero(chooseSeed(2), countClusters(6), 8, 8, {0, 1, 2, 3});
}

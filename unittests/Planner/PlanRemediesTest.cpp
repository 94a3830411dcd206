//===- PlanRemediesTest.cpp - What would make a plan fit ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/PlanRemedies.h"
#include "RandomCluster.h"
#include <gtest/gtest.h>

using namespace poplar;
using namespace poplar::test;

namespace {

using Texts = std::vector<std::string>;

/// Two devices of type "a" and one of type "b". Alone, a rank needs 16 000
/// bytes and 1000 a sample; stages 1 to 3 shard 8, 12 and 16 bytes of each of
/// 1000 elements.
class PlanRemediesTest : public testing::Test {
protected:
  PlanRemediesTest() {
    cluster.types = {makeDeviceType("a", 9000), makeDeviceType("b", 9000)};
    cluster.nodes = {{"n", 0, 3}};
    cluster.ranks = {{0, 0}, {0, 0}, {0, 1}};
    cluster.defaultInside = LinkSpeed{0, 1e9};
    for (int type = 0; type < 2; ++type)
      for (int stage = 0; stage < 4; ++stage)
        cluster.profiles.push_back(
            makeDeviceProfile(type, stage, RecomputePolicy::Keep));
    model.parameters.trained = 1000;
    choices.globalBatch = 6;
  }

  PlanSearchResult search(const ClusterView &view) {
    return searchPlans(view, model, *policy, choices);
  }
  Texts find() {
    EXPECT_FALSE(search(cluster).best());
    return findRemedies(cluster, model, *policy, choices);
  }

  ClusterView cluster;
  ModelFacts model;
  PlanChoices choices;
  std::string error;
  std::unique_ptr<BatchPolicy> policy = makePolicy("exact", error);
};

TEST_F(PlanRemediesTest, StagesAndShardings) {
  // A third of the state takes 5333 bytes in stage 3, 8000 in stage 2.
  choices.stages = {0};
  EXPECT_EQ(find()[0], "in stage 2");
  cluster.types[0].memory = cluster.types[1].memory = 6500;
  EXPECT_EQ(find()[0], "in stage 3");
  // "b" has no room for a third of the state; "a" has for half.
  cluster.types[0].memory = 13000;
  cluster.types[1].memory = 5000;
  choices.stages = {3};
  choices.shardings = {Sharding::Equal};
  choices.leaveOut = false;
  Texts remedies = find();
  ASSERT_GE(remedies.size(), 3u);
  EXPECT_EQ(remedies[0], "with the state shared by memory");
  EXPECT_EQ(remedies[1], "with devices left out");
  EXPECT_EQ(remedies[2], "with 333 bytes more memory on each 'b'");
}

TEST_F(PlanRemediesTest, MemoryIsTheLeastThereIs) {
  choices.stages = {1};
  choices.shardings = {Sharding::Equal};
  choices.leaveOut = false;
  // A third of the optimizer's 8000 bytes: 10 667 in all, and 1000 a sample
  // for one of the types, which may be the one that has more.
  cluster.types[0].memory = 12000;
  Texts remedies = find();
  ASSERT_EQ(remedies[0], "in stage 2");
  EXPECT_EQ(remedies[1], "with 1667 bytes more memory on each 'b'");
  cluster.types[1].memory += 1667;
  EXPECT_TRUE(search(cluster).best());
  cluster.types[1].memory -= 1;
  EXPECT_FALSE(search(cluster).best());
}

TEST_F(PlanRemediesTest, SeveralTypesMayBeShort) {
  choices.stages = {0};
  choices.shardings = {Sharding::Equal};
  choices.leaveOut = false;
  // 16 000 on both, and one of them has to hold a sample.
  EXPECT_EQ(find().back(), "with 7000 bytes more on each 'a' and 8000 "
                           "bytes more on each 'b'");
}

TEST_F(PlanRemediesTest, ATypeAlone) {
  choices.stages = {0};
  choices.shardings = {Sharding::Equal};
  Texts remedies = find();
  EXPECT_EQ(remedies[1], "with 8000 bytes more memory on each 'a'");
  EXPECT_EQ(remedies[2], "with 8000 bytes more memory on each 'b'");
}

TEST_F(PlanRemediesTest, MoreDevices) {
  // In stage 3, 16 000 bytes of state, and 1000 for a sample on all devices of
  // one type, in 4500 each: three 'a' without a sample and a 'b' with one, or
  // two 'a' and three 'b'. Stages that shard less never fit.
  cluster.types[0].memory = cluster.types[1].memory = 4500;
  Texts remedies = find();
  ASSERT_GE(remedies.size(), 2u);
  EXPECT_EQ(remedies[remedies.size() - 2], "with 1 more of 'a'");
  EXPECT_EQ(remedies.back(), "with 2 more of 'b'");
}

TEST_F(PlanRemediesTest, WhatIsNotKnownHasNoRemedy) {
  cluster.profiles.clear();
  EXPECT_TRUE(find().empty());
}

TEST_F(PlanRemediesTest, Recomputation) {
  choices.stages = {0};
  choices.chooseRecompute = false;
  cluster.types[0].memory = cluster.types[1].memory = 16500;
  for (int type = 0; type < 2; ++type) {
    cluster.profiles.push_back(
        makeDeviceProfile(type, 0, RecomputePolicy::Unit));
    cluster.profiles.back().memory->perSample = 500;
  }
  Texts remedies = find();
  EXPECT_EQ(remedies[0], "in stage 1");
  EXPECT_EQ(remedies[1],
            "with other types recomputing what they have profiles for");
}

TEST_F(PlanRemediesTest, RandomRemediesAreNeeded) {
  std::mt19937 random(31);
  int found = 0;
  for (int i = 0; i < 400; ++i) {
    RandomCluster test = makeRandomCluster(random);
    cluster = test.cluster;
    model = test.model;
    choices.stages = {static_cast<int>(random() % 4)};
    choices.leaveOut = false;
    choices.shardings = {i % 2 ? Sharding::Equal : Sharding::Memory};
    if (search(cluster).best())
      continue;
    for (const std::string &remedy :
         findRemedies(cluster, model, *policy, choices)) {
      long long bytes;
      int type;
      if (std::sscanf(remedy.c_str(),
                      "with %lld bytes more memory on each 't%d'", &bytes,
                      &type) != 2)
        continue;
      ++found;
      ClusterView other = cluster;
      other.types[type].memory += bytes;
      ASSERT_TRUE(search(other).best()) << remedy;
      other.types[type].memory -= 1;
      ASSERT_FALSE(search(other).best()) << remedy;
    }
  }
  EXPECT_GT(found, 50);
}

} // namespace

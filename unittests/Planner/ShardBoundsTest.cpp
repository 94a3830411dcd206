//===- ShardBoundsTest.cpp - Who owns which elements ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Zero/ShardBounds.h"
#include "Poplar/Planner/Model/ParameterBytes.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace poplar;

namespace {

TEST(StateBytesTest, StagesShardOneKindMoreEach) {
  // ZeRO's table for mixed precision: 18 bytes an element here, as gradients
  // are f32. A tenth of 1,000 elements.
  StateFormat half = StateFormat::halfPrecision();
  int64_t totals[] = {18000, 6000 + 1200, 2000 + 1600, 1800};
  ParameterElements elements, shard;
  elements.trained = 1000;
  shard.trained = 100;
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_EQ(getStateBytes(half, stage, elements, shard), totals[stage]);
  EXPECT_EQ(getStateBytes(StateFormat::singlePrecision(), 2, elements, shard),
            4000 + 400 + 800);
  // An empty shard.
  EXPECT_EQ(getStateBytes(half, 3, elements, {}), 0);
}

TEST(ShardBoundsTest, EqualShardsAreRoundedUp) {
  EXPECT_EQ(shardEqually(10, 4).bounds, (std::vector<int64_t>{0, 3, 6, 9, 10}));
  // The last ones may be empty.
  EXPECT_EQ(shardEqually(4, 3).bounds, (std::vector<int64_t>{0, 2, 4, 4}));
  EXPECT_EQ(shardEqually(2, 4).bounds, (std::vector<int64_t>{0, 1, 2, 2, 2}));
  EXPECT_EQ(shardEqually(0, 2).bounds, (std::vector<int64_t>{0, 0, 0}));
  for (int64_t ranks = 1; ranks < 20; ++ranks)
    for (int64_t elements = 0; elements < 60; ++elements)
      EXPECT_EQ(shardEqually(elements, ranks).verify(elements), "");
}

TEST(ShardBoundsTest, WrongShardsAreRejected) {
  EXPECT_EQ(ShardBounds{{0}}.verify(0), "there are no shards");
  EXPECT_EQ((ShardBounds{{1, 5}}.verify(5)), "the first shard begins at 1");
  EXPECT_EQ((ShardBounds{{0, 5}}.verify(6)), "the last shard ends at 5 of 6");
  EXPECT_EQ((ShardBounds{{0, 4, 2, 6}}.verify(6)),
            "shard 1 ends before it begins");
  EXPECT_EQ((ShardBounds{{0, 20, 40}}.verify(40, 16)),
            "shard 1 begins at 20, which is not a multiple of 16");
  EXPECT_EQ((ShardBounds{{0, 32, 40, 40}}.verify(40, 16)), "");
}

TEST(ShardBoundsTest, FreeMemoryIsBalanced) {
  std::string error;
  // 100 and 40 bytes free, 80 elements of one byte: 30 are left on each.
  auto shards = shardByFreeMemory(80, {100, 40}, 1, error, 1);
  ASSERT_TRUE(shards) << error;
  EXPECT_EQ(shards->bounds, (std::vector<int64_t>{0, 70, 80}));
  // The small card has less free than the large one keeps: it owns nothing.
  shards = shardByFreeMemory(50, {100, 40}, 1, error, 1);
  EXPECT_EQ(shards->bounds, (std::vector<int64_t>{0, 50, 50}));
  // A card that is full already, in the middle.
  shards = shardByFreeMemory(64, {320, -5, 320}, 4, error);
  EXPECT_EQ(shards->bounds, (std::vector<int64_t>{0, 32, 32, 64}));
  // The last end is not aligned.
  shards = shardByFreeMemory(70, {400, 400}, 4, error);
  EXPECT_EQ(shards->bounds, (std::vector<int64_t>{0, 48, 70}));
  EXPECT_FALSE(shardByFreeMemory(80, {100, 200}, 4, error));
  EXPECT_EQ(error, "state of 320 bytes does not fit: the 2 ranks have room for "
                   "256 bytes together, 64 bytes are missing");
}

TEST(ShardBoundsTest, RandomShardsCoverOnceAndFit) {
  std::mt19937 random(5);
  int fitting = 0;
  for (int i = 0; i < 3000; ++i) {
    int64_t elements = random() % 5000, perElement = 1 + random() % 18;
    int64_t alignment = random() % 2 ? 16 : 1 + random() % 7;
    std::vector<int64_t> free(1 + random() % 6);
    for (int64_t &bytes : free)
      bytes = static_cast<int64_t>(random() % 60000) - 3000;
    std::string error;
    auto balanced =
        shardByFreeMemory(elements, free, perElement, error, alignment);
    int64_t unit = alignment * perElement, room = 0;
    for (int64_t bytes : free)
      room += std::max<int64_t>(bytes, 0) / unit * alignment;
    ASSERT_EQ(balanced.has_value(), room >= elements);
    if (!balanced)
      continue;
    ++fitting;
    ASSERT_EQ(balanced->verify(elements, alignment), "");
    for (size_t r = 0; r < free.size(); ++r) {
      ASSERT_LE(balanced->length(r) * perElement,
                std::max<int64_t>(free[r], 0));
      // Nobody owns something and has less left than another rank by more than
      // the unit that could be moved there (or, at the end, part of one).
      int64_t left = free[r] - balanced->length(r) * perElement;
      for (size_t other = 0; other < free.size(); ++other)
        if (balanced->length(other) > 0) {
          ASSERT_GE(free[other] - balanced->length(other) * perElement +
                        2 * unit,
                    left)
              << "rank " << r << " against " << other;
        }
    }
  }
  EXPECT_GT(fitting, 1000);
}

TEST(ShardBoundsTest, ManyRanks) {
  // 70e9 elements over 16,384 ranks of two sizes: 80 GB and 40 GB.
  std::vector<int64_t> free(16384, 80000000000);
  for (size_t i = 0; i < free.size(); i += 2)
    free[i] = 40000000000;
  std::string error;
  int64_t elements = 70000000000;
  auto shards = shardByFreeMemory(elements, free, 18, error);
  ASSERT_TRUE(shards) << error;
  EXPECT_EQ(shards->verify(elements, shardAlignment), "");
  // Large cards keep more free than small ones ever had.
  EXPECT_EQ(shards->length(0), 0);
  EXPECT_NEAR(shards->length(1), elements / 8192, 16);
}

} // namespace

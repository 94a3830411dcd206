//===- WordsTest.cpp - Words that are types -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Support/Words.h"
#include "Poplar/Planner/Model/StateBytes.h"
#include "Poplar/Planner/Model/WireFormat.h"
#include "Poplar/Planner/Pipeline/Timetable.h"
#include "gtest/gtest.h"
#include <set>

using namespace poplar;

namespace {

template <typename Word> class WordsTest : public testing::Test {};
using AllWords = testing::Types<NumberFormat, WireFormat, RecomputePolicy,
                                PlanSchedule, PipelineSchedule>;
TYPED_TEST_SUITE(WordsTest, AllWords);

TYPED_TEST(WordsTest, ReadsWhatItWrites) {
  std::set<std::string> names;
  for (TypeParam word : listWords<TypeParam>()) {
    EXPECT_EQ(parseWord<TypeParam>(toString(word)), word) << toString(word);
    names.insert(toString(word));
  }
  EXPECT_EQ(names.size(), listWords<TypeParam>().size());
}

TYPED_TEST(WordsTest, RefusesOtherWords) {
  for (std::string_view text :
       {"", " ", "bogus", "none", "auto", "KEEP", "F32", "f8", "f64", "fp16"})
    EXPECT_FALSE(parseWord<TypeParam>(text)) << text;
  // Nothing but the whole word.
  for (TypeParam word : listWords<TypeParam>()) {
    std::string name = toString(word);
    EXPECT_FALSE(parseWord<TypeParam>(name + " "));
    EXPECT_FALSE(parseWord<TypeParam>(" " + name));
    EXPECT_FALSE(parseWord<TypeParam>(name + name));
    EXPECT_FALSE(parseWord<TypeParam>(name.substr(0, name.size() - 1)));
  }
}

TEST(WordsTextTest, ListsThemInOrder) {
  EXPECT_EQ(joinWords<RecomputePolicy>(),
            "keep, recompute-attention, recompute-unit");
  EXPECT_EQ(joinWords<RecomputePolicy>(" or "),
            "keep or recompute-attention or recompute-unit");
  static_assert(parseWord<RecomputePolicy>("recompute-unit") ==
                RecomputePolicy::Unit);
}

// Bytes that do not follow from how a word begins.
TEST(WordsTextTest, FormatsHaveTheirBytes) {
  using Format = NumberFormat;
  EXPECT_EQ(getStorageBytes(Format::F32), 4);
  EXPECT_EQ(getStorageBytes(Format::TF32), 4);
  EXPECT_EQ(getStorageBytes(Format::BF16), 2);
  EXPECT_EQ(getStorageBytes(Format::F16), 2);
  EXPECT_EQ(StateFormat::of(Format::F32).parameter, 4);
  EXPECT_EQ(StateFormat::of(Format::TF32).optimizer, 8);
  EXPECT_EQ(StateFormat::of(Format::F16).optimizer, 12);
  EXPECT_EQ(getElementBytes(WireFormat::F32), 4);
  EXPECT_EQ(getElementBytes(WireFormat::BF16), 2);
  EXPECT_EQ(getElementBytes(WireFormat::F16), 2);
  EXPECT_EQ(getElementBytes(WireFormat::I8), 1 + 4.0 / 256);
  // Nothing that is kept needs a wider wire, or fits a narrower one.
  for (Format format : listWords<Format>())
    EXPECT_EQ(getElementBytes(getExactWire(format)), getStorageBytes(format))
        << toString(format);
}

} // namespace

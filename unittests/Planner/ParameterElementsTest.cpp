//===- ParameterElementsTest.cpp - Parameters of units and of devices -----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Model/ParameterBytes.h"
#include <gtest/gtest.h>

using namespace poplar;

namespace {

/// Three units, of which the first and the last share a parameter.
UnitElements makeUnits() {
  return {{{100, 64, 10, 0}, {200, 0, 20, 7}, {100, 64, 10, 0}},
          {50, 32, 5, 0}};
}

TEST(ParameterElements, TiedOnesCountOnce) {
  UnitElements elements = makeUnits();
  EXPECT_EQ(elements.check(), "");
  EXPECT_EQ(elements.count(0, 2), (ParameterElements{300, 64, 30, 7}));
  EXPECT_EQ(elements.count(0, 3), (ParameterElements{350, 96, 35, 7}));
  // Between stages, only gradients of what is trained are exchanged.
  EXPECT_EQ(elements.countTiedOutside(0, 2), (ParameterElements{50, 32, 0, 0}));
  EXPECT_EQ(elements.countTiedOutside(2, 3), (ParameterElements{50, 32, 0, 0}));
  EXPECT_EQ(elements.countTiedOutside(1, 2), ParameterElements());
  EXPECT_EQ(elements.countTiedOutside(0, 3), ParameterElements());
  // A single unit is its first and its last.
  EXPECT_EQ((UnitElements{{{100}}, {50}}).count(0, 1).trained, 100);
}

TEST(ParameterElements, DevicesHoldPartsAndWholes) {
  UnitElements elements = makeUnits();
  HeldElements even = HeldElements::divideEvenly(elements, 2, 0, 2);
  EXPECT_EQ(even.own, (ParameterElements{125, 16, 15, 4}));
  EXPECT_EQ(even.tied, (ParameterElements{25, 16, 0, 0}));
  EXPECT_EQ(even.whole, ParameterElements());
  SharedElements shared{
      {{{50, 32, 5, 0}, {95, 0, 10, 4}, {50, 32, 5, 0}}, {25, 16, 3, 0}},
      {{{}, {10, 0, 0, 0}, {}}, {}}};
  HeldElements held = HeldElements::of(shared, 0, 2);
  EXPECT_EQ(held.own, (ParameterElements{120, 16, 15, 4}));
  EXPECT_EQ(held.tied, (ParameterElements{25, 16, 0, 0}));
  EXPECT_EQ(held.whole, (ParameterElements{10, 0, 0, 0}));
}

TEST(ParameterElements, TheLastShardHasTheFewestInt8States) {
  ParameterElements all{100, 64, 30, 9};
  EXPECT_EQ(all.getShard(1, 2), (ParameterElements{50, 14, 15, 5}));
  EXPECT_EQ(all.getShard(1, 4), (ParameterElements{25, 0, 8, 3}));
  // Two devices hold as much each.
  EXPECT_EQ(all.getShard(2, 4), all.getShard(1, 2));
  EXPECT_EQ((ParameterElements{100, 0, 30, 9, 64}.getShard(1, 2)),
            (ParameterElements{50, 0, 15, 5, 14}));
}

TEST(ParameterElements, QuantizedBytesTravelAsTheyAre) {
  EXPECT_EQ((ParameterElements{100, 64, 30, 9}).countWireElements(2), 135);
  EXPECT_EQ((ParameterElements{100, 64, 30, 0}).countWireElements(4), 130);
}

TEST(ParameterElements, ErrorsNameTheUnit) {
  UnitElements elements = makeUnits();
  elements.units[1].int8States = 201;
  EXPECT_EQ(elements.check(),
            "units[1]: more moments are in blocks than are trained");
  elements = makeUnits();
  elements.units[2].frozen = -1;
  EXPECT_EQ(elements.check(), "units[2]: must not be negative");
  elements = makeUnits();
  elements.tied.frozen = 11;
  EXPECT_EQ(elements.check(), "tied: the first and the last unit have fewer");
  EXPECT_EQ(UnitElements().check(), "has no units");
}

TEST(ParameterBytes, EachKindIsShardedFromItsStageOn) {
  StateFormat half = StateFormat::halfPrecision();
  ParameterElements all{1024, 512, 100, 77}, shard{256, 0, 25, 20};
  int64_t saved = 6 * 512 - 512 / 32,
          bytes[] = {18 * 1024 - saved + 200 + 77,
                     6 * 1024 + 12 * 256 + 200 + 77,
                     2 * 1024 + 16 * 256 + 200 + 77, 18 * 256 + 50 + 20};
  for (int stage = 0; stage < 4; ++stage)
    EXPECT_EQ(getStateBytes(half, stage, all, shard), bytes[stage]) << stage;
  // Divided exactly, as in plans over distant devices.
  all.quantizedBytes = 80;
  EXPECT_EQ(StateRates::of(half, 2).getBytes(all, 4),
            (6 * 1024 + 12 * 256 + 200 + 80) / 2);
  EXPECT_EQ(StateRates::of(half, 1).getBytes({512, 512, 0, 0}, 1),
            18 * 512 - saved);
  // In 4 bits, a moment of 256 elements takes 128 bytes and a scale.
  int64_t narrow = 18 * 512 - 2 * (4 * 512 - 256 - 2 * 4);
  EXPECT_EQ(getStateBytes(half, 0, {512, 0, 0, 0, 512}, {}), narrow);
  EXPECT_EQ(StateRates::of(half, 1).getBytes({512, 0, 0, 0, 512}, 1), narrow);
}

} // namespace

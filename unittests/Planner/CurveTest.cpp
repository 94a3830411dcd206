//===- CurveTest.cpp - Step time against micro-batch ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Planner/Batch/Curve.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace poplar;

namespace {

Curve fit(std::vector<Curve::Point> points) {
  std::string error;
  std::optional<Curve> curve = Curve::fit(std::move(points), error);
  EXPECT_TRUE(curve) << error;
  return curve.value_or(Curve());
}

std::string refusal(std::vector<Curve::Point> points) {
  std::string error;
  EXPECT_FALSE(Curve::fit(std::move(points), error));
  return error;
}

TEST(CurveTest, NoSamplesTakeNoTime) {
  EXPECT_EQ(Curve().largest(), 0);
  EXPECT_EQ(Curve().seconds(0), 0);
  EXPECT_EQ(Curve().peak(0), 0);
  EXPECT_EQ(fit({{1, 5}, {2, 6}}).seconds(0), 0);
}

TEST(CurveTest, GoesThroughItsPoints) {
  Curve curve = fit({{8, 1.75}, {1, 0.5}, {16, 3.5}, {2, 0.625}, {4, 1}});
  EXPECT_EQ(curve.largest(), 16);
  EXPECT_EQ(curve.seconds(1), 0.5);
  EXPECT_EQ(curve.seconds(2), 0.625);
  EXPECT_EQ(curve.seconds(4), 1);
  EXPECT_EQ(curve.seconds(8), 1.75);
  EXPECT_EQ(curve.seconds(16), 3.5);
  EXPECT_EQ(curve.points().front().batch, 1);
  EXPECT_TRUE(curve.adjustments().empty());
}

TEST(CurveTest, MonotoneCubicBetweenPoints) {
  // The PCHIP of these points, by hand: at 4, secants 1/2 and 4/2 give the
  // slope (6 + 6) / (6 / 0.5 + 6 / 2) = 0.8, at 6, 2 and 2 give 2. Hermite at
  // 5: (2 + 6) / 2 + 2 (0.8 - 2) / 8.
  Curve curve = fit({{2, 1}, {4, 2}, {6, 6}, {8, 10}});
  EXPECT_NEAR(curve.seconds(5), 3.7, 1e-12);
  // A natural cubic spline would fall after a step; this one stays between.
  Curve step = fit({{1, 1}, {10, 1}, {11, 9}, {20, 9}});
  for (int64_t b = 1; b <= 20; ++b) {
    EXPECT_GE(step.seconds(b), 1);
    EXPECT_LE(step.seconds(b), 9);
    EXPECT_GE(step.seconds(b), step.seconds(b - 1));
  }
}

TEST(CurveTest, StraightBetweenFewPoints) {
  Curve curve = fit({{1, 1}, {3, 2}, {7, 6}});
  EXPECT_DOUBLE_EQ(curve.seconds(2), 1.5);
  EXPECT_DOUBLE_EQ(curve.seconds(5), 4);
}

TEST(CurveTest, BelowTheFirstPoint) {
  // A fixed cost of 1 shows in the first segment and is kept.
  Curve affine = fit({{4, 3}, {8, 5}, {12, 9}, {16, 13}});
  EXPECT_DOUBLE_EQ(affine.seconds(1), 1.5);
  EXPECT_DOUBLE_EQ(affine.seconds(3), 2.5);
  // Here the line would reach zero above one sample: in proportion instead.
  Curve convex = fit({{4, 2}, {8, 10}});
  EXPECT_DOUBLE_EQ(convex.seconds(1), 0.5);
  EXPECT_DOUBLE_EQ(convex.seconds(2), 1);
}

TEST(CurveTest, PoolsWhatFalls) {
  Curve curve = fit({{1, 1}, {2, 4}, {3, 2}, {4, 3}, {5, 8}});
  EXPECT_EQ(curve.seconds(1), 1);
  EXPECT_EQ(curve.seconds(2), 3);
  EXPECT_EQ(curve.seconds(3), 3);
  EXPECT_EQ(curve.seconds(4), 3);
  EXPECT_EQ(curve.seconds(5), 8);
  // 3 seconds is what was measured for 4 samples, so that is not reported.
  ASSERT_EQ(curve.adjustments().size(), 2u);
  EXPECT_EQ(curve.adjustments()[0].batch, 2);
  EXPECT_EQ(curve.adjustments()[0].measured, 4);
  EXPECT_EQ(curve.adjustments()[0].used, 3);
  EXPECT_EQ(curve.adjustments()[1].batch, 3);
  EXPECT_EQ(curve.adjustments()[1].measured, 2);
}

TEST(CurveTest, NeverFalls) {
  std::mt19937 random(3);
  for (int i = 0; i < 500; ++i) {
    std::vector<Curve::Point> points;
    int64_t batch = 0;
    for (int p = 0; p < 2 + i % 9; ++p)
      points.push_back({batch += 1 + random() % 40,
                        std::ldexp(1.0 + random() % 1000, int(random() % 20))});
    Curve curve = fit(points);
    for (int64_t b = 1; b <= curve.largest(); ++b) {
      ASSERT_GT(curve.seconds(b), 0);
      ASSERT_GE(curve.seconds(b), curve.seconds(b - 1));
    }
  }
}

TEST(CurveTest, Inverse) {
  Curve curve = fit({{1, 1}, {2, 2}, {3, 2}, {4, 4}, {5, 5}});
  EXPECT_EQ(curve.largestWithin(0.5, 5), 0);
  EXPECT_EQ(curve.largestWithin(1, 5), 1);
  EXPECT_EQ(curve.largestWithin(2, 5), 3);
  EXPECT_EQ(curve.largestWithin(3.9, 5), 3);
  EXPECT_EQ(curve.largestWithin(99, 5), 5);
  EXPECT_EQ(curve.largestWithin(99, 4), 4);
  EXPECT_EQ(curve.largestWithin(99, 0), 0);
}

TEST(CurveTest, Peak) {
  Curve curve = fit({{1, 1}, {2, 1.5}, {3, 1.8}, {4, 3.2}, {5, 4}});
  EXPECT_EQ(curve.peak(5), 3);
  EXPECT_EQ(curve.peak(2), 2);
  EXPECT_DOUBLE_EQ(curve.throughput(4), 1.25);
  // The smallest one of equals.
  EXPECT_EQ(fit({{1, 0.5}, {2, 1}, {3, 1.5}}).peak(3), 1);
}

TEST(CurveTest, Refusals) {
  EXPECT_EQ(refusal({}), "a curve needs at least two points, found none");
  EXPECT_EQ(refusal({{4, 1}}),
            "a curve needs at least two points, found one, of micro-batch 4");
  EXPECT_EQ(refusal({{0, 1}, {2, 1}}),
            "point of micro-batch 0: the micro-batch must be positive");
  EXPECT_EQ(refusal({{1, 1}, {2, -1}}),
            "point of micro-batch 2: the time must be positive and finite");
  EXPECT_EQ(refusal({{1, 1}, {2, NAN}}),
            "point of micro-batch 2: the time must be positive and finite");
  EXPECT_EQ(refusal({{2, 1}, {1, 1}, {2, 1}}),
            "point of micro-batch 2: given twice");
  EXPECT_EQ(
      refusal({{1, 1}, {2000000, 1}}),
      "point of micro-batch 2000000: the largest supported micro-batch is "
      "1048576");
  // A device that holds one sample has only one point to measure.
  EXPECT_EQ(fit({{1, 2}}).largest(), 1);
}

} // namespace

//===- LinkFitTest.cpp - The line through times of messages ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/LinkFit.h"

#include <gtest/gtest.h>

using namespace poplar::runtime;

namespace {

std::optional<LinkFit> fit(double Latency, double Bandwidth,
                           const std::vector<MessageTime> &Others = {}) {
  std::vector<MessageTime> Times;
  for (double Bytes : {4.0, 16384.0, 262144.0, 8388608.0})
    Times.push_back({Bytes, Latency + Bytes / Bandwidth});
  Times.insert(Times.begin() + 1, Others.begin(), Others.end());
  return LinkFit::get(Times);
}

TEST(LinkFitTest, timesOnALine) {
  std::optional<LinkFit> Fit = fit(1e-4, 1e9);
  ASSERT_TRUE(Fit);
  EXPECT_NEAR(Fit->Latency, 1e-4, 1e-9);
  EXPECT_NEAR(Fit->Bandwidth, 1e9, 1e3);
  EXPECT_NEAR(Fit->Error, 0, 1e-9);
}

/// A link lets a small message through as if it were fast. Least squares of
/// relative distances find 1.6e7 bytes a second.
TEST(LinkFitTest, timeBesideTheLine) {
  std::optional<LinkFit> Fit = fit(6e-5, 1.2e7, {{1024, 6e-5}});
  ASSERT_TRUE(Fit);
  EXPECT_NEAR(Fit->Latency, 6e-5, 1e-6);
  EXPECT_NEAR(Fit->Bandwidth, 1.2e7, 1e5);
  EXPECT_GT(Fit->Error, 0.2);
}

/// Where time grows faster than messages.
TEST(LinkFitTest, noNegativeLatency) {
  std::optional<LinkFit> Fit = LinkFit::get({{1000, 1}, {2000, 3}, {4000, 9}});
  ASSERT_TRUE(Fit);
  EXPECT_EQ(Fit->Latency, 0);
  EXPECT_GT(Fit->Bandwidth, 0);
}

TEST(LinkFitTest, noLineThroughTimesThatDoNotGrow) {
  EXPECT_FALSE(LinkFit::get({{4, 2}, {1024, 2}, {8192, 1}}));
  EXPECT_FALSE(LinkFit::get({{4, 2}}));
}

} // namespace

//===- MetricsTest.cpp - Rows of metrics.csv ------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Metrics.h"
#include "job/EventFile.h"
#include "support/Files.h"
#include "support/MappedFile.h"
#include "gtest/gtest.h"
#include <cmath>
#include <filesystem>

using namespace poplar::runtime;

namespace {
class MetricsTest : public testing::Test {
protected:
  MetricsTest() {
    std::filesystem::remove_all(Run);
    std::filesystem::create_directories(Run);
  }
  ~MetricsTest() override { std::filesystem::remove_all(Run); }
  std::string read() const {
    return std::string(MappedFile(Run + "/metrics.csv").text());
  }
  void write(const std::string &Text) const {
    writeFileAtomically(Run + "/metrics.csv", Text);
  }

  std::string Run =
      testing::TempDir() + "poplar-metrics-" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string Header =
      "step,loss,val_loss,lr,grad_norm,tokens_per_s,seconds,tokens,epoch\n";
};
} // namespace

TEST_F(MetricsTest, AreReadAsTheyWereWritten) {
  Metrics Row;
  Row.Step = 1;
  Row.Loss = 1.0 / 3;
  Row.Rate = 1e-3;
  Row.GradientNorm = 2.5;
  Row.TokensPerSecond = 1234.56;
  Row.Seconds = 0.25;
  Row.Tokens = 3e12;
  Row.Epochs = 0.125;
  {
    MetricsFile File(Run, 0, 2);
    File.add(Row);
    Row.Step = 2;
    Row.ValLoss = 0.5;
    File.add(Row);
    File.sync();
  }
  std::string Text =
      Header + "1,0.333333333,,0.001,2.5,1234.6,0.250,3000000000000,0.125\n"
               "2,0.333333333,0.5,0.001,2.5,1234.6,0.250,3000000000000,"
               "0.125\n";
  EXPECT_EQ(read(), Text);
  MetricsFile Again(Run, 2, 2);
  EXPECT_EQ(read(), Text);
  ASSERT_EQ(Again.rows().size(), 2u);
  EXPECT_TRUE(std::isnan(Again.rows()[0].ValLoss));
  EXPECT_EQ(Again.rows()[1].ValLoss, 0.5);
  EXPECT_EQ(Again.rows()[1].Tokens, 3e12);
}

TEST_F(MetricsTest, PairsHaveColumnsOfTheirOwn) {
  Metrics Row;
  Row.Step = 1;
  Row.Loss = 0.5;
  Row.Margin = -0.25;
  Row.Accuracy = 0.75;
  {
    MetricsFile File(Run, 0, 1, /*HasPairs=*/true);
    File.add(Row);
    File.sync();
  }
  std::string Named = Header;
  Named.insert(Named.size() - 1, ",reward_margin,reward_accuracy");
  EXPECT_EQ(read(), Named + "1,0.5,,0,0,0.0,,,,-0.25,0.75\n");
  MetricsFile Again(Run, 1, 1, /*HasPairs=*/true);
  ASSERT_EQ(Again.rows().size(), 1u);
  EXPECT_EQ(Again.rows()[0].Margin, -0.25);
  EXPECT_EQ(Again.rows()[0].Accuracy, 0.75);
}

TEST_F(MetricsTest, OfOlderVersionsLackColumns) {
  write("step,loss,val_loss,lr,grad_norm,tokens_per_s\n1,2,,0.1,3,40.0\n"
        "2,1.5,1,0.1,3,41.0\n");
  MetricsFile File(Run, 2, 4);
  ASSERT_EQ(File.rows().size(), 2u);
  EXPECT_TRUE(std::isnan(File.rows()[1].Seconds));
  EXPECT_EQ(read(), Header + "1,2,,0.1,3,40.0,,,\n2,1.5,1,0.1,3,41.0,,,\n");
}

TEST_F(MetricsTest, WhatIsNoRowEndsThem) {
  for (const char *Bad :
       {"2,1.5,1,0.1,3\n", "2,,,0.1,3,41.0,1,2,3\n", "2,x,,0.1,3,41.0,1,2,3\n",
        "2,1.5,,0.1,3,41.0,1,2,3,4\n", "2,1.5,,0.1,3,41.0,1,2,3", "\n"}) {
    write(Header + "1,2,,0.1,3,40.0,1.000,2,3\n" + Bad);
    MetricsFile File(Run, 4, 4);
    EXPECT_EQ(File.rows().size(), 1u) << Bad;
    EXPECT_EQ(File.describeGap(), "2 to 4") << Bad;
  }
}

/// The examples of RFC 3720, appendix B.4, and the usual one.
TEST(EventFileTest, SumsAreCastagnolis) {
  EXPECT_EQ(getCRC32C("123456789"), 0xe3069283u);
  EXPECT_EQ(getCRC32C(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(getCRC32C(std::string(32, '\xff')), 0x62a8ab43u);
}

TEST_F(MetricsTest, WhatIsNoDirectoryHoldsNoEvents) {
  EXPECT_ANY_THROW(EventFile(Run + "/absent", 0));
}

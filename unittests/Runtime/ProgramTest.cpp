//===- ProgramTest.cpp - Damaged tables of a program ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program whose tables contradict each other or its description ends in one
// error that names both sides, before anything is allocated or written.
//
//===----------------------------------------------------------------------===//

#include "TestProgram.h"
#include "TestSupport.h"

#include <filesystem>

using testprogram::Program;

namespace {

class ProgramTest : public testing::Test {
protected:
  ProgramTest() {
    writeFile(Dir / "text.txt", makeText(2000));
    std::copy_n(Program.parameters, 2, Parameters);
    std::copy_n(Program.buckets, 2, Buckets);
    Changed.model = &Model;
    Changed.parameters = Parameters;
    Changed.buckets = Buckets;
  }

  /// What training says; no directory may be left.
  std::string train() {
    Result R = runProgram(Changed, {"--data", Dir / "text.txt", "--out",
                                    Dir / "run", "--steps", "1", "--batch", "1",
                                    "--peak-gflops", "1", "--threads", "1"});
    EXPECT_EQ(R.Status, 1);
    EXPECT_FALSE(std::filesystem::exists(Dir / "run"));
    EXPECT_EQ(R.Err.rfind("train: error: ", 0), 0u) << R.Err;
    EXPECT_EQ(std::count(R.Err.begin(), R.Err.end(), '\n'), 1) << R.Err;
    return R.Err;
  }

  TempDir Dir;
  PoplarModel Model = *Program.model;
  PoplarProgram Changed = Program;
  PoplarParameter Parameters[2];
  PoplarBucket Buckets[2];
};

TEST_F(ProgramTest, UnchangedRuns) {
  Result R = runProgram(Changed, {"--data", Dir / "text.txt", "--out",
                                  Dir / "run", "--steps", "1", "--batch", "1",
                                  "--peak-gflops", "1", "--threads", "1"});
  EXPECT_EQ(R.Status, 0) << R.Err;
}

TEST_F(ProgramTest, VocabularyIsThatOfAnEmbedding) {
  Model.vocab_size = 300;
  EXPECT_NE(train().find("a vocabulary of 300 tokens, but no embedding"),
            std::string::npos);
}

TEST_F(ProgramTest, ParametersAreAsManyAsDescribed) {
  Model.num_elements = 8191;
  EXPECT_NE(
      train().find("its description says 8191 parameters, but it has 8192"),
      std::string::npos);
}

TEST_F(ProgramTest, ElementsAreThoseOfTheShape) {
  for (int64_t Elements :
       {int64_t(0), int64_t(-1), int64_t(256 * 16 + 1), int64_t(1) << 62}) {
    Parameters[1] = Program.parameters[1];
    Parameters[1].elements = Elements;
    EXPECT_NE(train().find("'head.weight' is [256,16] and has " +
                           std::to_string(Elements) + " elements"),
              std::string::npos);
  }
  Parameters[1] = Program.parameters[1];
  Parameters[1].shape[0] = Parameters[1].shape[1] = int64_t(1) << 32;
  EXPECT_NE(train().find("'head.weight' is [4294967296,4294967296]"),
            std::string::npos);
  Parameters[1] = Program.parameters[1];
  Parameters[1].rank = 5;
  EXPECT_NE(train().find("'head.weight' has 5 dimensions"), std::string::npos);
}

TEST_F(ProgramTest, ParametersLieInTheirBuckets) {
  for (int64_t Bucket : {-1, 2}) {
    Parameters[1].bucket = Bucket;
    EXPECT_NE(train().find("'head.weight' is in bucket " +
                           std::to_string(Bucket) + " of 2"),
              std::string::npos);
  }
  Parameters[1] = Program.parameters[1];
  for (int64_t Offset : {int64_t(-64), int64_t(1), INT64_MAX}) {
    Parameters[1].offset = Offset;
    EXPECT_NE(train().find("'head.weight' lies outside its bucket 'head'"),
              std::string::npos);
  }
  Parameters[1] = Program.parameters[1];
  Parameters[1].bucket = 0;
  EXPECT_NE(train().find("'head.weight' shares memory with "
                         "'model.embed.weight'"),
            std::string::npos);
}

} // namespace

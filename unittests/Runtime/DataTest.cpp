//===- DataTest.cpp - Corpora, samples, masking ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Data.h"
#include "Error.h"
#include "TestProgram.h"
#include "TestSupport.h"

#include <cstring>
#include <set>

using namespace poplar::runtime;

namespace {

template <typename T> std::string toBytes(const std::vector<T> &Values) {
  return std::string(reinterpret_cast<const char *>(Values.data()),
                     Values.size() * sizeof(T));
}

std::string makeHeader(int32_t Magic, int32_t Version, int32_t Count) {
  std::vector<int32_t> Header(256);
  Header[0] = Magic;
  Header[1] = Version;
  Header[2] = Count;
  return toBytes(Header);
}

std::vector<int32_t> readAll(const Corpus &C) {
  std::vector<int32_t> Tokens(static_cast<size_t>(C.size()));
  C.read(0, C.size(), Tokens.data());
  return Tokens;
}

/// The message of the Error that `Action` throws.
template <typename F> std::string messageOf(F Action) {
  try {
    Action();
  } catch (const Error &E) {
    return E.what();
  }
  return "no error";
}

#define EXPECT_MENTIONS(Message, Part)                                         \
  EXPECT_NE(std::string(Message).find(Part), std::string::npos) << Message

TEST(Corpus, Text) {
  TempDir Dir;
  writeFile(Dir / "a.txt", "h\xC3\xA9!");
  Corpus C(Dir / "a.txt", TokenFormat::Auto, 256);
  EXPECT_EQ(readAll(C), (std::vector<int32_t>{'h', 0xC3, 0xA9, '!'}));
  EXPECT_TRUE(C.isText());
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "a.txt", TokenFormat::Text, 255); }),
      "at least 256");
}

TEST(Corpus, NanoGPT) {
  TempDir Dir;
  writeFile(Dir / "a.bin", toBytes<uint16_t>({1, 50256, 3}));
  EXPECT_EQ(readAll(Corpus(Dir / "a.bin", TokenFormat::Auto, 50257)),
            (std::vector<int32_t>{1, 50256, 3}));
  writeFile(Dir / "odd.bin", "abc");
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "odd.bin", TokenFormat::Auto, 9); }),
      "truncated");
}

TEST(Corpus, LLMC) {
  TempDir Dir;
  writeFile(Dir / "one.bin",
            makeHeader(20240520, 1, 2) + toBytes<uint16_t>({7, 8}));
  writeFile(Dir / "two.bin",
            makeHeader(20240520, 2, 2) + toBytes<uint32_t>({70000, 8}));
  writeFile(Dir / "three.bin", makeHeader(20240520, 3, 0));
  writeFile(Dir / "short.bin",
            makeHeader(20240520, 1, 5) + toBytes<uint16_t>({7, 8}));
  writeFile(Dir / "other.bin", makeHeader(1, 1, 0));
  auto Open = [&](const char *Name, TokenFormat Format) {
    return readAll(Corpus(Dir / Name, Format, 100000));
  };
  EXPECT_EQ(Open("one.bin", TokenFormat::Auto), (std::vector<int32_t>{7, 8}));
  EXPECT_EQ(Open("two.bin", TokenFormat::LLMC),
            (std::vector<int32_t>{70000, 8}));
  EXPECT_MENTIONS(messageOf([&] { Open("three.bin", TokenFormat::Auto); }),
                  "version 3");
  EXPECT_MENTIONS(messageOf([&] { Open("short.bin", TokenFormat::Auto); }),
                  "promises 5 tokens and it holds 2");
  EXPECT_MENTIONS(messageOf([&] { Open("other.bin", TokenFormat::LLMC); }),
                  "no llm.c header");
}

TEST(Corpus, ShardsInSortedOrder) {
  TempDir Dir;
  writeFile(Dir / "s2.txt", "cde");
  writeFile(Dir / "s1.txt", "ab");
  writeFile(Dir / "s3.txt", "f");
  Corpus C(Dir / "s*.txt", TokenFormat::Auto, 256);
  EXPECT_EQ(C.size(), 6);
  int32_t Tokens[4];
  C.read(1, 4, Tokens);
  EXPECT_EQ(std::string(Tokens, Tokens + 4), "bcde");
  C.read(5, 1, Tokens);
  EXPECT_EQ(Tokens[0], 'f');
}

TEST(Corpus, BadFiles) {
  TempDir Dir;
  writeFile(Dir / "empty.txt", "");
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "empty.txt", TokenFormat::Auto, 256); }),
      "is empty");
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "no*", TokenFormat::Auto, 256); }),
      "No such file");
  EXPECT_MENTIONS(messageOf([&] { Corpus(Dir / "", TokenFormat::Auto, 256); }),
                  "not a regular file");
  writeFile(Dir / "a.bin", toBytes<uint16_t>({1, 2, 300, 4}));
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "a.bin", TokenFormat::Auto, 256); }),
      "a.bin': token 300 at position 2 is outside");
}

class SourceTest : public testing::Test {
protected:
  TempDir Dir;
  ModelInfo Model{testprogram::Program};
};

TEST_F(SourceTest, ShufflesEachEpochWithoutLoss) {
  writeFile(Dir / "a.txt", makeText(16 * 100 + 1));
  Corpus C(Dir / "a.txt", TokenFormat::Auto, 256);
  CorpusSource Source(C, 0, C.size(), Model, 7, true, "training");
  ASSERT_EQ(Source.size(), 100);
  std::vector<int64_t> First, Second;
  for (int64_t I = 0; I < 100; ++I) {
    First.push_back(Source.getPosition(I));
    Second.push_back(Source.getPosition(100 + I));
  }
  EXPECT_NE(First, Second);
  EXPECT_FALSE(std::is_sorted(First.begin(), First.end()));
  std::set<int64_t> Distinct(First.begin(), First.end());
  EXPECT_EQ(Distinct.size(), 100u);
  EXPECT_EQ(*Distinct.rbegin(), 16 * 99);
  EXPECT_EQ(Distinct, std::set<int64_t>(Second.begin(), Second.end()));
}

TEST_F(SourceTest, TargetsAreTheNextTokens) {
  writeFile(Dir / "a.txt", makeText(40));
  Corpus C(Dir / "a.txt", TokenFormat::Auto, 256);
  CorpusSource Source(C, 0, C.size(), Model, 7, false, "training");
  std::vector<int32_t> Ids(16), Targets(16), Tokens = readAll(C);
  Source.read(1, Ids.data(), Targets.data());
  EXPECT_TRUE(std::equal(Ids.begin(), Ids.end(), Tokens.begin() + 16));
  EXPECT_TRUE(std::equal(Targets.begin(), Targets.end(), Tokens.begin() + 17));
}

TEST_F(SourceTest, NeedsOneSequence) {
  writeFile(Dir / "a.txt", makeText(16));
  Corpus C(Dir / "a.txt", TokenFormat::Auto, 256);
  EXPECT_MENTIONS(messageOf([&] {
                    CorpusSource(C, 0, C.size(), Model, 7, true, "training");
                  }),
                  "has 16 tokens, fewer than one sequence of 16");
}

TEST_F(SourceTest, RawSamples) {
  std::vector<int32_t> Values(2 * 32, 5);
  Values[32] = 6;
  Values[17] = -1;
  writeFile(Dir / "a.ids", toBytes(Values));
  RawSource Source(Dir / "a.ids", Model);
  EXPECT_EQ(Source.size(), 2);
  std::vector<int32_t> Ids(16), Targets(16);
  Source.read(3, Ids.data(), Targets.data());
  EXPECT_EQ(Ids[0], 6);
  Source.read(0, Ids.data(), Targets.data());
  EXPECT_EQ(countTargets(Targets.data(), 16), 15);
  Values[0] = 256;
  writeFile(Dir / "b.ids", toBytes(Values));
  EXPECT_MENTIONS(messageOf([&] { RawSource(Dir / "b.ids", Model); }),
                  "sample 0, position 0: id 256");
  writeFile(Dir / "c.ids", "1234");
  EXPECT_MENTIONS(messageOf([&] { RawSource(Dir / "c.ids", Model); }),
                  "not a positive multiple");
}

TEST_F(SourceTest, MasksAsBERT) {
  ModelInfo Masked(testprogram::MaskedProgram);
  int64_t Targets = 0, Masks = 0, Kept = 0;
  constexpr int64_t Samples = 5000;
  for (int64_t S = 0; S < Samples; ++S) {
    std::vector<int32_t> Ids(16, 65), Wanted(16), Again(16, 65), Same(16);
    maskTokens(static_cast<uint64_t>(S), Masked, Ids.data(), Wanted.data());
    maskTokens(static_cast<uint64_t>(S), Masked, Again.data(), Same.data());
    ASSERT_EQ(Ids, Again);
    ASSERT_EQ(Wanted, Same);
    for (size_t I = 0; I < 16; ++I) {
      if (Wanted[I] == -1) {
        ASSERT_EQ(Ids[I], 65);
        continue;
      }
      ASSERT_EQ(Wanted[I], 65);
      ++Targets;
      Masks += Ids[I] == 255;
      Kept += Ids[I] == 65;
    }
  }
  double Count = static_cast<double>(Targets);
  EXPECT_NEAR(Count / (Samples * 16), 0.15, 0.005);
  EXPECT_NEAR(static_cast<double>(Masks) / Count, 0.8, 0.02);
  EXPECT_NEAR(static_cast<double>(Kept) / Count, 0.1, 0.02);
}

} // namespace

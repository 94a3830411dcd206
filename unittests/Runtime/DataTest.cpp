//===- DataTest.cpp - Corpora, samples, masking ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Data.h"
#include "TestProgram.h"
#include "TestSupport.h"
#include "support/Error.h"

#include <cmath>
#include <cstring>
#include <random>
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
  EXPECT_MENTIONS(C.describe(), "a.txt': text (bytes), 4 tokens, 4 of 256 ids "
                                "are used, the largest is 195");
  EXPECT_MENTIONS(
      messageOf([&] { Corpus(Dir / "a.txt", TokenFormat::Text, 255); }),
      "at least 256");
  // Bytes are no ids of a tokenizer, unless somebody insists.
  for (TokenFormat Format : {TokenFormat::Auto, TokenFormat::Text})
    EXPECT_MENTIONS(messageOf([&] { Corpus(Dir / "a.txt", Format, 50257); }),
                    "is text, and the model has a vocabulary of 50257");
  EXPECT_EQ(Corpus(Dir / "a.txt", TokenFormat::Bytes, 50257).size(), 4);
}

TEST(Corpus, WithoutHeader) {
  TempDir Dir;
  auto Open = [&](const char *Name, TokenFormat Format, int64_t VocabSize) {
    return readAll(Corpus(Dir / Name, Format, VocabSize));
  };
  std::vector<int32_t> Wanted = {70000, 5, 6, 7};
  writeFile(Dir / "a.bin", toBytes<uint32_t>({70000, 5, 6, 7}));
  writeFile(Dir / "b.bin", toBytes<int64_t>({70000, 5, 6, 7}));
  for (const char *Name : {"a.bin", "b.bin"})
    EXPECT_MENTIONS(
        messageOf([&] { Open(Name, TokenFormat::Auto, 100000); }),
        "may be ids of 16, 32 or 64 bits, all below 100000; say which by "
        "--data-format");
  EXPECT_EQ(Open("a.bin", TokenFormat::U32, 100000), Wanted);
  EXPECT_EQ(Open("a.bin", TokenFormat::I32, 100000), Wanted);
  EXPECT_EQ(Open("b.bin", TokenFormat::I64, 100000), Wanted);
  // Ids are checked in every format, those of 16 bits, too.
  writeFile(Dir / "c.bin", toBytes<int32_t>({70000, -5}));
  EXPECT_MENTIONS(messageOf([&] { Open("c.bin", TokenFormat::I32, 100000); }),
                  "token -5 at position 1 is outside the vocabulary");
  EXPECT_MENTIONS(messageOf([&] { Open("c.bin", TokenFormat::U32, 100000); }),
                  "token 4294967291 at position 1");
  writeFile(Dir / "d.bin", toBytes<uint16_t>({1, 65535, 3, 65535}));
  EXPECT_MENTIONS(messageOf([&] { Open("d.bin", TokenFormat::Auto, 65535); }),
                  "token 65535 at position 1");
  EXPECT_EQ(Open("d.bin", TokenFormat::Auto, 70000).size(), 4u);
  writeFile(Dir / "e.bin", makeText(100));
  EXPECT_MENTIONS(messageOf([&] { Open("e.bin", TokenFormat::Auto, 50257); }),
                  "is called .bin and looks like text");
  writeFile(Dir / "f.dat", toBytes<uint16_t>({1, 2}));
  EXPECT_MENTIONS(messageOf([&] { Open("f.dat", TokenFormat::Auto, 256); }),
                  "neither text nor of a format that is known");
}

/// As numpy.save writes it.
std::string makeNpy(const std::string &Type, const std::string &Shape,
                    const std::string &Data, int Major = 1) {
  std::string Header = "{'descr': " + Type +
                       ", 'fortran_order': False, 'shape': " + Shape + ", }";
  size_t Fixed = Major == 1 ? 10 : 12;
  Header.resize((Header.size() + Fixed + 64) / 64 * 64 - Fixed - 1, ' ');
  Header += '\n';
  std::string Text = "\x93NUMPY";
  Text += static_cast<char>(Major);
  Text += '\0';
  for (size_t I = 0; I < (Major == 1 ? 2u : 4u); ++I)
    Text += static_cast<char>(Header.size() >> 8 * I);
  return Text + Header + Data;
}

TEST(Corpus, Npy) {
  TempDir Dir;
  auto Open = [&](const std::string &Text) {
    writeFile(Dir / "a.npy", Text);
    return readAll(Corpus(Dir / "a.npy", TokenFormat::Auto, 100000));
  };
  auto ErrorOf = [&](const std::string &Text) {
    return messageOf([&] { Open(Text); });
  };
  std::vector<int32_t> Wanted = {3, 256, 7};
  std::string U16 = toBytes<uint16_t>({3, 256, 7});
  EXPECT_EQ(Open(makeNpy("'<u2'", "(3,)", U16)), Wanted);
  EXPECT_EQ(Open(makeNpy("'<i2'", "(3,)", U16, 2)), Wanted);
  EXPECT_EQ(Open(makeNpy("'<u4'", "(3,)", toBytes<uint32_t>({3, 256, 7}), 3)),
            Wanted);
  EXPECT_EQ(Open(makeNpy("'<i8'", "(3,)", toBytes<int64_t>({3, 256, 7}))),
            Wanted);
  EXPECT_EQ(Open(makeNpy("'|u1'", "(2,)", "ab")),
            (std::vector<int32_t>{'a', 'b'}));
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<i8'", "(2,)",
                                  toBytes<int64_t>({3, int64_t(1) << 32}))),
                  "token 4294967296 at position 1 is outside");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<u8'", "(1,)", std::string(8, '\xff'))),
                  "is outside the vocabulary");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'>i4'", "(1,)", "abcd")),
                  "is an array of type >i4");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<f4'", "(1,)", "abcd")), "of type <f4");
  EXPECT_MENTIONS(ErrorOf(makeNpy("[('a', '<i4')]", "(1,)", "abcd")),
                  "of type a structure");
  EXPECT_MENTIONS(
      ErrorOf(makeNpy("'<u2'", "(1, 3)", U16)),
      "is an array of shape (1, 3), and a corpus has one dimension");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<u2'", "()", "ab")), "of shape ()");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<u2'", "(4,)", U16)),
                  "announces 4 tokens and it holds 3");
  EXPECT_MENTIONS(ErrorOf(makeNpy("'<u2'", "(3,)", U16, 4)), "of version 4");
  // Cut or changed anywhere: an Error, or an array.
  std::string Good = makeNpy("'<u2'", "(3,)", U16);
  for (size_t I = 0; I < Good.size(); ++I) {
    std::string Text = Good;
    Text[I] = "9(\xff"[I % 4];
    ErrorOf(Text);
    ErrorOf(Good.substr(0, I));
  }
}

TEST(Corpus, OtherFilesAreRefusedByName) {
  using namespace std::string_literals;
  TempDir Dir;
  std::string Tar(512, 'x');
  Tar.replace(257, 5, "ustar");
  const std::pair<std::string, const char *> Files[] = {
      {"\x1f\x8b\x08\0"s, "gzip"},
      {"\x28\xb5\x2f\xfd"s, "zstd"},
      {"BZh91AY", "bzip2"},
      {"\xfd\x37zXZ\0"s, "xz"},
      {"PK\x03\x04"s, "a zip archive"},
      {"PAR1", "Parquet"},
      {"ARROW1\0\0"s, "Arrow"},
      {"\xff\xff\xff\xff\x10\0"s, "Arrow stream"},
      {"\x80\x04\x95\x10\0"s, "pickle"},
      {"\x10\0\0\0\0\0\0\0{\"a\": 1}      "s + "data", "safetensors"},
      {"\xff\xfeh\0i\0"s, "UTF-16"},
      {Tar, "tar"},
      {"{\"text\": \"hello\"}\n{\"text\": \"you\"}\n", "is JSON"},
      {"[\n  {\"instruction\" : 1}]", "is JSON"},
      {"ab\0cd"s, "neither text nor"},
      {makeHeader(20240522, 1, 2) + "abcd", "examples of an evaluation"},
      {makeHeader(20240326, 3, 2), "weights"}};
  for (const auto &[Text, Name] : Files)
    for (const char *Path : {"a", "a.txt", "a.bin"}) {
      // Some end where others go on.
      if (std::string(Name) == "neither text nor" && Path[1] && Path[2] == 'b')
        continue;
      writeFile(Dir / Path, Text + std::string(4096, ' '));
      EXPECT_MENTIONS(
          messageOf([&] { Corpus(Dir / Path, TokenFormat::Auto, 256); }), Name);
    }
  for (const char *Text :
       {"[Scene: a street]", "{ int x; }", "\"a\": 1", "[1] Smith, A."}) {
    writeFile(Dir / "a.txt", Text);
    EXPECT_EQ(readAll(Corpus(Dir / "a.txt", TokenFormat::Auto, 256)).size(),
              std::strlen(Text));
  }
}

TEST(Corpus, NanoGPT) {
  TempDir Dir;
  writeFile(Dir / "a.bin", toBytes<uint16_t>({1, 50256, 3}));
  EXPECT_EQ(readAll(Corpus(Dir / "a.bin", TokenFormat::Auto, 50257)),
            (std::vector<int32_t>{1, 50256, 3}));
  writeFile(Dir / "odd.bin", std::string("\1\0\2\0\3", 5));
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
  writeFile(Dir / "llama.bin",
            makeHeader(20240801, 7, 2) + toBytes<uint32_t>({70000, 8}));
  EXPECT_EQ(Open("llama.bin", TokenFormat::Auto),
            (std::vector<int32_t>{70000, 8}));
  EXPECT_MENTIONS(messageOf([&] { Open("llama.bin", TokenFormat::U32); }),
                  "has a header of llm.c");
  EXPECT_MENTIONS(messageOf([&] { Open("three.bin", TokenFormat::Auto); }),
                  "version 3");
  EXPECT_MENTIONS(messageOf([&] { Open("short.bin", TokenFormat::Auto); }),
                  "announces 5 tokens and it holds 2");
  EXPECT_MENTIONS(messageOf([&] { Open("other.bin", TokenFormat::LLMC); }),
                  "no llm.c header");
}

TEST(Corpus, ShardsInSortedOrder) {
  TempDir Dir;
  writeFile(Dir / "s2.txt", "cde");
  writeFile(Dir / "s1.txt", "ab");
  writeFile(Dir / "s3.txt", "f");
  // A file has its name, even if it looks like a pattern.
  writeFile(Dir / "t1.txt", "other");
  writeFile(Dir / "t[1].txt", "this");
  Corpus Literal(Dir / "t[1].txt", TokenFormat::Auto, 256);
  EXPECT_EQ(Literal.size(), 4);
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
  EXPECT_MENTIONS(Source.describe(), "2 samples of 16 ids and targets, 2 of "
                                     "256 ids are used, the largest is 6, 1 "
                                     "targets are negative and not counted");
  Values[0] = 256;
  writeFile(Dir / "b.ids", toBytes(Values));
  EXPECT_MENTIONS(messageOf([&] { RawSource(Dir / "b.ids", Model); }),
                  "sample 0, position 0: id 256");
  writeFile(Dir / "d.ids", toBytes(std::vector<int64_t>(32, 5)));
  EXPECT_MENTIONS(messageOf([&] { RawSource(Dir / "d.ids", Model); }),
                  "integers of 64 bits");
  writeFile(Dir / "e.ids", toBytes(std::vector<int32_t>(64, 0)));
  EXPECT_NO_THROW(RawSource(Dir / "e.ids", Model));
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

namespace recorded {
#include "MaskingCounts.inc"
} // namespace recorded

// What transformers' DataCollatorForLanguageModeling was seen to do with the
// same kind of samples (scripts/goldens/check_masking.py): as many tokens
// chosen, masked and kept, none of them special, and drawn from as much of the
// vocabulary.
TEST_F(SourceTest, MasksAsTransformers) {
  ModelInfo Masked(testprogram::MaskedProgram);
  Masked.vocab_size = recorded::Vocabulary;
  Masked.seq_len = recorded::Length;
  Masked.mask_token = 103;
  Masked.SpecialTokens = {0, 100, 101, 102, 103};
  auto IsSpecial = [&](int32_t Id) {
    return std::binary_search(Masked.SpecialTokens.begin(),
                              Masked.SpecialTokens.end(), Id);
  };
  std::mt19937 Random(1);
  std::uniform_int_distribution<int32_t> Word(104, recorded::Vocabulary - 1);
  int64_t Ordinary = 0, Chosen = 0, ChosenSpecial = 0, OfMask = 0, Kept = 0;
  std::set<int32_t> Drawn;
  for (uint64_t S = 0; S < 20000; ++S) {
    std::vector<int32_t> Ids = {101};
    for (int64_t W = 0; W < recorded::Words; ++W)
      Ids.push_back(W == 3 ? 103 : W == 7 ? 100 : Word(Random));
    Ids.push_back(102);
    Ids.resize(static_cast<size_t>(recorded::Length), 0);
    std::vector<int32_t> Before = Ids, Wanted(Ids.size());
    maskTokens(S, Masked, Ids.data(), Wanted.data());
    for (size_t I = 0; I < Ids.size(); ++I) {
      Ordinary += !IsSpecial(Before[I]);
      if (Wanted[I] == -1)
        continue;
      ++Chosen;
      ChosenSpecial += IsSpecial(Before[I]);
      OfMask += Ids[I] == 103;
      Kept += Ids[I] == Before[I];
      if (Ids[I] != 103 && Ids[I] != Before[I])
        Drawn.insert(Ids[I]);
    }
  }
  // Both are samples of one distribution: within four deviations of a
  // difference.
  auto ExpectAlike = [](int64_t Ours, int64_t Of, int64_t Theirs,
                        int64_t OfTheirs) {
    auto A = static_cast<double>(Of), B = static_cast<double>(OfTheirs),
         P = static_cast<double>(Theirs) / B;
    EXPECT_NEAR(static_cast<double>(Ours) / A, P,
                4 * std::sqrt(P * (1 - P) * (1 / A + 1 / B)));
  };
  EXPECT_EQ(Ordinary, recorded::Ordinary);
  EXPECT_EQ(ChosenSpecial, recorded::ChosenSpecial);
  ExpectAlike(Chosen, Ordinary, recorded::Chosen, recorded::Ordinary);
  ExpectAlike(OfMask, Chosen, recorded::Masked, recorded::Chosen);
  ExpectAlike(Kept, Chosen, recorded::Kept, recorded::Chosen);
  EXPECT_EQ(std::count_if(Drawn.begin(), Drawn.end(), IsSpecial),
            recorded::DrawnSpecial);
}

// As DataCollatorForLanguageModeling: special tokens are never chosen, whatever
// replaces the others; replacements at random are from the whole vocabulary.
TEST_F(SourceTest, MasksNoSpecialTokens) {
  ModelInfo Masked(testprogram::MaskedProgram);
  Masked.SpecialTokens = {0, 2, 3, 255};
  int64_t Ordinary = 0, Targets = 0, Random = 0;
  std::set<int32_t> Drawn;
  for (uint64_t S = 0; S < 20000; ++S) {
    std::vector<int32_t> Ids = {2,  65, 66,  67, 68, 69, 70, 71,
                                72, 73, 255, 74, 3,  0,  0,  0};
    std::vector<int32_t> Before = Ids, Wanted(16);
    maskTokens(S, Masked, Ids.data(), Wanted.data());
    for (size_t I = 0; I < 16; ++I) {
      bool Special = Before[I] < 4 || Before[I] == 255;
      Ordinary += !Special;
      if (Wanted[I] == -1) {
        ASSERT_EQ(Ids[I], Before[I]);
        continue;
      }
      ASSERT_FALSE(Special) << Before[I];
      ASSERT_EQ(Wanted[I], Before[I]);
      ++Targets;
      if (Ids[I] != 255 && Ids[I] != Before[I]) {
        ++Random;
        Drawn.insert(Ids[I]);
      }
    }
  }
  double Count = static_cast<double>(Targets);
  EXPECT_NEAR(Count / static_cast<double>(Ordinary), 0.15, 0.005);
  EXPECT_NEAR(static_cast<double>(Random) / Count, 0.1, 0.01);
  EXPECT_EQ(Drawn.count(0) + Drawn.count(2) + Drawn.count(3), 3u);
  EXPECT_GT(Drawn.size(), 250u);
}

} // namespace

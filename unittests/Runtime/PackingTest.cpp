//===- PackingTest.cpp - Examples that share samples; mixtures ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Packing.h"
#include "TestProgram.h"
#include "TestSupport.h"
#include "data/ExampleSource.h"
#include "data/Examples.h"
#include "data/Mixture.h"
#include "data/PairSource.h"
#include "data/Sources.h"
#include "job/Options.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

using namespace poplar::runtime;

namespace {

const std::string Inputs = POPLAR_TOKENIZER_INPUTS;

/// Best-fit decreasing as it is defined: how full the samples are.
std::multiset<int64_t> packByDefinition(std::vector<int32_t> Lengths,
                                        int64_t Capacity) {
  std::sort(Lengths.rbegin(), Lengths.rend());
  std::vector<int64_t> Rooms;
  for (int32_t Length : Lengths) {
    int64_t *Best = nullptr;
    for (int64_t &Room : Rooms)
      if (Room >= Length && (!Best || Room < *Best))
        Best = &Room;
    if (!Best)
      Best = &Rooms.emplace_back(Capacity);
    *Best -= Length;
  }
  std::multiset<int64_t> Filled;
  for (int64_t Room : Rooms)
    Filled.insert(Capacity - Room);
  return Filled;
}

TEST(Packing, IsBestFitDecreasing) {
  std::mt19937 Random(3);
  for (int64_t Capacity : {1, 7, 64, 300}) {
    std::uniform_int_distribution<int32_t> Any(1,
                                               static_cast<int32_t>(Capacity));
    std::vector<int32_t> Lengths(500);
    for (int32_t &Length : Lengths)
      Length = std::min(Any(Random), Any(Random));
    Packing P(Lengths, Capacity);
    std::vector<int64_t> First;
    for (uint64_t Key : {0, 1, 2}) {
      Permutation Order(Lengths.size(), Key);
      P.pack(Key ? &Order : nullptr);
      std::multiset<int64_t> Filled;
      std::set<int64_t> Seen;
      std::vector<int64_t> All;
      for (int64_t Sample = 0; Sample < P.size(); ++Sample) {
        int64_t Sum = 0;
        for (const int64_t *Each = P.begin(Sample); Each != P.end(Sample);
             ++Each) {
          Sum += Lengths[static_cast<size_t>(*Each)];
          All.push_back(*Each);
        }
        Filled.insert(Sum);
      }
      Seen.insert(All.begin(), All.end());
      EXPECT_EQ(All.size(), Lengths.size());
      EXPECT_EQ(Seen.size(), Lengths.size());
      EXPECT_EQ(Filled, packByDefinition(Lengths, Capacity));
      if (Key == 0) {
        First = All;
      } else if (Capacity > 1) {
        EXPECT_NE(All, First) << "another order, other company";
      }
    }
  }
}

class ExamplesTest : public testing::Test {
protected:
  ExamplesTest() : Model(testprogram::Program) {
    setenv("POPLAR_CACHE", (Dir / "cache").c_str(), 1);
    O.Tokenizer = Inputs + "/qwen.json";
    Model.vocab_size = 100000;
    Model.packed = true;
    Encoding.emplace(O, Model);
    Config = "{\"eos_token_id\": " +
             std::to_string(Encoding->get()->find("<|endoftext|>")) + "}";
    Model.config = Config.c_str();
    std::string Lines;
    std::mt19937 Random(5);
    for (int I = 0; I < 60; ++I) {
      Lines += R"({"prompt": "the", "completion": ")";
      for (unsigned J = Random() % 9; J > 0; --J)
        Lines += " the model";
      Lines += std::string(" ") + char('a' + I % 26) + "\"}\n";
    }
    writeFile(Dir / "a.jsonl", Lines);
    File.emplace(Dir / "a.jsonl", *Encoding, Model, ExampleRules(), false);
  }
  struct Sample {
    std::vector<int32_t> Ids, Targets, Positions;
    bool operator==(const Sample &Other) const {
      return Ids == Other.Ids && Targets == Other.Targets &&
             Positions == Other.Positions;
    }
  };
  Sample read(SampleSource &Source, int64_t Index) const {
    auto Length = static_cast<size_t>(Model.seq_len);
    Sample S{std::vector<int32_t>(Length), std::vector<int32_t>(Length),
             std::vector<int32_t>(Length)};
    Source.read(Index, S.Ids.data(), S.Targets.data());
    Source.readPositions(Index, Model.seq_len, S.Positions.data());
    return S;
  }

  TempDir Dir;
  Options O;
  std::string Config;
  ModelInfo Model;
  std::optional<TextEncoding> Encoding;
  std::optional<ExampleFile> File;
};

/// (id, target) of every place of an example that has a next token.
using Places = std::vector<std::pair<int32_t, int32_t>>;

TEST_F(ExamplesTest, ShareSamplesWhole) {
  ExampleSource Source(*File, 0, File->size(), Model, 7, true);
  EXPECT_LT(Source.size(), File->size());
  std::multiset<Places> Expected;
  int64_t Filled = 0;
  for (int64_t I = 0; I < File->size(); ++I) {
    std::vector<int32_t> Ids(16), Targets(16);
    auto Count = static_cast<size_t>(
        File->read(I, 0, std::min<int64_t>(File->length(I) - 1, 16), Ids.data(),
                   Targets.data()));
    Places P;
    for (size_t J = 0; J < Count; ++J)
      P.emplace_back(Ids[J], Targets[J]);
    EXPECT_NE(P.back().second, -1);
    Expected.insert(P);
    Filled += static_cast<int64_t>(Count);
  }
  // In every epoch, every example once.
  for (int64_t Epoch : {0, 1, 5}) {
    std::multiset<Places> Seen;
    for (int64_t I = 0; I < Source.size(); ++I) {
      Sample S = read(Source, Epoch * Source.size() + I);
      size_t End = 16;
      while (End > 0 && S.Targets[End - 1] == -2)
        --End;
      // What is left are documents of one token.
      for (size_t J = End; J < 16; ++J)
        EXPECT_EQ(S.Positions[J], 0);
      Places P;
      for (size_t J = 0; J < End; ++J) {
        if (S.Positions[J] == 0 && J > 0) {
          Seen.insert(P);
          P.clear();
        }
        EXPECT_EQ(S.Positions[J], static_cast<int32_t>(P.size()));
        P.emplace_back(S.Ids[J], S.Targets[J]);
      }
      Seen.insert(P);
    }
    EXPECT_EQ(Seen, Expected) << Epoch;
  }
  std::string Text = Source.describe();
  EXPECT_NE(Text.find("packed 60 examples into " +
                      std::to_string(Source.size()) +
                      " samples of 16 tokens: "),
            std::string::npos)
      << Text;
  // Any order of reading gives the same: nothing is to be resumed.
  ExampleSource Again(*File, 0, File->size(), Model, 7, true);
  int64_t Last = 3 * Source.size() + 2;
  EXPECT_EQ(read(Again, Last), read(Source, Last));
  EXPECT_EQ(read(Again, 1), read(Source, 1));
  ExampleSource Other(*File, 0, File->size(), Model, 8, true);
  EXPECT_FALSE(read(Other, 0) == read(Source, 0) &&
               read(Other, 1) == read(Source, 1));
}

/// Each answer of a pair is in its half of a sample, as a document of its own.
TEST_F(ExamplesTest, OfPairsAreInHalves) {
  std::string Lines;
  for (const char *Answers :
       {R"(" a", "rejected": " b c")",
        R"(" a b c d e f g h i j k l", "rejected": " b")"})
    Lines += std::string(R"({"prompt": "the", "chosen": )") + Answers + "}\n";
  // A prompt that leaves no place for an answer.
  Lines += R"({"prompt": "a b c d e f g h i j k l", "chosen": " m", )"
           R"("rejected": " n"})";
  writeFile(Dir / "pairs.jsonl", Lines + "\n");
  ExampleRules Rules;
  Rules.Pairs = true;
  ExampleFile Pairs(Dir / "pairs.jsonl", *Encoding, Model, Rules, false);
  ASSERT_EQ(Pairs.size(), 6);
  auto Open = [&](LongExamples Long, PairTargets Which) {
    return PairSource(Pairs, 0, 3, Model, 7, /*Shuffle=*/false, nullptr, Long,
                      Which);
  };
  PairSource Cut = Open(LongExamples::Cut, PairTargets::Answers),
             All = Open(LongExamples::Cut, PairTargets::AnswersAndPrompt);
  ASSERT_EQ(Cut.size(), 2);
  EXPECT_EQ(Cut.describe(),
            ", 1 pair is longer than 9 tokens and cut, 1 pair is left out: no "
            "token of an answer among the first 9 tokens");
  for (int64_t I : {0, 1}) {
    Sample S = read(Cut, I), WithPrompt = read(All, I);
    EXPECT_EQ(S.Ids, WithPrompt.Ids);
    for (int64_t Half : {0, 1}) {
      std::vector<int32_t> Ids(8, 0), Targets(8, -1);
      int64_t Number = 2 * I + Half,
              Places = std::min<int64_t>(Pairs.length(Number) - 1, 8);
      Pairs.read(Number, 0, Places, Ids.data(), Targets.data());
      for (int64_t J = 0; J < 8; ++J) {
        auto Own = static_cast<size_t>(J),
             Place = static_cast<size_t>(8 * Half + J);
        EXPECT_EQ(S.Ids[Place], Ids[Own]);
        EXPECT_EQ(S.Targets[Place], Targets[Own]);
        EXPECT_EQ(S.Positions[Place], J < Places ? J : 0);
        bool IsOfPrompt = !Half && J < Places && Targets[Own] == -1;
        EXPECT_EQ(WithPrompt.Targets[Place],
                  IsOfPrompt ? markPrompt(Ids[Own + 1]) : Targets[Own]);
      }
    }
  }
  EXPECT_EQ(Open(LongExamples::Drop, PairTargets::Answers).size(), 1);
  EXPECT_ANY_THROW(Open(LongExamples::Fail, PairTargets::Answers));
}

TEST_F(ExamplesTest, AreSplitOrDroppedIfTheyAreLong) {
  // All tokens of texts but the first of a part are targets.
  std::string Lines;
  for (int I = 1; I < 60; I += 7) {
    Lines += "{\"text\": \"";
    for (int J = 0; J < I; ++J)
      Lines += " the model";
    Lines += "\"}\n";
  }
  writeFile(Dir / "long.jsonl", Lines);
  ExampleFile Long(Dir / "long.jsonl", *Encoding, Model, ExampleRules(), false);
  int64_t Parts = 0, Short = 0;
  std::multiset<Places> Expected;
  for (int64_t I = 0; I < Long.size(); ++I) {
    Short += Long.length(I) <= 16;
    for (int64_t First = 0; First + 1 < Long.length(I); First += 16, ++Parts) {
      std::vector<int32_t> Ids(16), Targets(16);
      int64_t Count =
          Long.read(I, First, std::min<int64_t>(Long.length(I) - First - 1, 15),
                    Ids.data(), Targets.data());
      Places P;
      for (size_t J = 0; J < static_cast<size_t>(Count); ++J)
        P.emplace_back(Ids[J], Targets[J]);
      Expected.insert(P);
    }
  }
  for (bool IsPacked : {true, false}) {
    Model.packed = IsPacked;
    ExampleSource Split(Long, 0, Long.size(), Model, 7, true, nullptr,
                        LongExamples::Split);
    if (IsPacked) {
      EXPECT_LE(Split.size(), Parts);
      continue;
    }
    EXPECT_EQ(Split.size(), Parts);
    std::multiset<Places> Seen;
    for (int64_t I = 0; I < Split.size(); ++I) {
      std::vector<int32_t> Ids(16), Targets(16);
      Split.read(I, Ids.data(), Targets.data());
      Places P;
      for (size_t J = 0; J < 16 && Targets[J] != -1; ++J)
        P.emplace_back(Ids[J], Targets[J]);
      Seen.insert(P);
    }
    EXPECT_EQ(Seen, Expected);
  }
  ExampleSource Rest(Long, 0, Long.size(), Model, 7, true, nullptr,
                     LongExamples::Drop);
  EXPECT_EQ(Rest.size(), Short);
  EXPECT_ANY_THROW(ExampleSource(Long, 0, Long.size(), Model, 7, true, nullptr,
                                 LongExamples::Fail));
}

TEST_F(ExamplesTest, EqualAndShortOnesAreLeftOut) {
  Model.packed = false;
  const std::string A = R"({"prompt": "the", "completion": " model a"})",
                    B = R"({"prompt": "the", "completion": " model b"})",
                    Same = R"({"prompt": "the model", "completion": " a"})";
  writeFile(Dir / "one.jsonl", A + "\n" + B + "\n" + A + "\n" + Same + "\n");
  writeFile(Dir / "two.jsonl", B + "\n" + A + "\n");
  O.Data = {Dir / "one.jsonl", Dir / "two.jsonl"};
  O.ValFraction = 0;
  O.DropEqual = true;
  // Rows with other targets are not equal. Nothing is left of the second file.
  Sources Distinct(O, Model, false);
  EXPECT_EQ(Distinct.Train->size(), 3);
  std::string Text = Distinct.describe();
  EXPECT_NE(Text.find("1 example equal to an earlier one left out"), Text.npos)
      << Text;
  EXPECT_NE(Text.find("two.jsonl' equal earlier ones"), Text.npos) << Text;
  ExampleFile First(Dir / "one.jsonl", *Encoding, Model, ExampleRules(), false);
  ExampleFile Other =
      ExampleFile(Dir / "one.jsonl", *Encoding, Model, ExampleRules(), false);
  std::set<ExampleHash> Seen;
  Other.leaveOutEqual(Seen, 1);
  EXPECT_EQ(Other.size(), 3);
  EXPECT_EQ(Other.tokens(), First.tokens() - First.length(2));
  for (auto [Left, Row] : {std::pair(0, 0), std::pair(1, 1), std::pair(2, 3)}) {
    std::vector<int32_t> Ids(4), Targets(4), OtherIds(4), OtherTargets(4);
    ASSERT_EQ(Other.length(Left), First.length(Row));
    Other.read(Left, 0, 4, OtherIds.data(), OtherTargets.data());
    First.read(Row, 0, 4, Ids.data(), Targets.data());
    EXPECT_EQ(OtherIds, Ids);
    EXPECT_EQ(OtherTargets, Targets);
  }
  // A pair is left out as a whole.
  std::set<ExampleHash> OfPairs;
  First.leaveOutEqual(OfPairs, 2);
  EXPECT_EQ(First.size(), 4);

  int64_t Long = 0;
  for (int64_t I = 0; I < File->size(); ++I)
    Long += File->length(I) >= 8;
  ExampleSource Source(*File, 0, File->size(), Model, 7, true, nullptr,
                       LongExamples::Cut, 8);
  EXPECT_EQ(Source.size(), Long);
  EXPECT_NE(Source.describe().find("shorter than 8 tokens and dropped"),
            std::string::npos);
}

TEST_F(ExamplesTest, AreHeldOutAtRandomOrFromTheEnd) {
  Model.packed = false;
  O.Data = {Dir / "a.jsonl"};
  O.ValFraction = 0.25;
  using Rows = std::vector<std::vector<int32_t>>;
  auto ReadAll = [&](SampleSource &Source) {
    Rows All;
    for (int64_t I = 0; I < Source.size(); ++I) {
      std::vector<int32_t> Ids(16), Targets(16);
      Source.read(I, Ids.data(), Targets.data());
      All.push_back(Ids);
    }
    return All;
  };
  auto Split = [&](const char *How, int64_t Seed) {
    O.ValSplit = How;
    O.Seed = Seed;
    Sources Data(O, Model, false);
    return std::pair(ReadAll(*Data.Train), ReadAll(*Data.Validation));
  };
  ExampleSource Whole(*File, 0, File->size(), Model, 1, false);
  Rows InOrder = ReadAll(Whole);
  auto End = Split("end", 1).second;
  EXPECT_EQ(End, Rows(InOrder.end() - 15, InOrder.end()));
  auto [Train, Held] = Split("random", 1);
  EXPECT_EQ(Held.size(), 15u);
  EXPECT_NE(Held, End);
  // Together they are all, each once.
  Rows Together = Train;
  Together.insert(Together.end(), Held.begin(), Held.end());
  std::sort(Together.begin(), Together.end());
  std::sort(InOrder.begin(), InOrder.end());
  EXPECT_EQ(Together, InOrder);
  // The seed decides; examples are held out at random unless the end is meant.
  EXPECT_EQ(Split("auto", 1).second, Held);
  EXPECT_NE(Split("random", 2).second, Held);
}

/// Samples that tell whose and which they are.
class NumberedSource : public SampleSource {
public:
  NumberedSource(int32_t Name, int64_t Count) : Name(Name), Count(Count) {}
  int64_t size() const override { return Count; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override {
    *Ids = Name;
    *Targets = static_cast<int32_t>(Index);
  }

private:
  int32_t Name;
  int64_t Count;
};

std::vector<std::unique_ptr<SampleSource>> makeParts() {
  std::vector<std::unique_ptr<SampleSource>> Parts;
  for (int32_t Name : {0, 1, 2})
    Parts.push_back(std::make_unique<NumberedSource>(Name, 10 + Name));
  return Parts;
}

TEST(Mixture, SharesAreKeptEverywhere) {
  const std::vector<double> Weights = {2, 7, 1};
  MixedSource Source(makeParts(), Weights);
  EXPECT_EQ(Source.size(), 33);
  std::map<int32_t, int32_t> Next;
  for (int64_t I = 0; I < 1000; ++I) {
    int32_t Name = -1, Own = -1;
    Source.read(I, &Name, &Own);
    // Every part gives its samples in their order.
    ASSERT_EQ(Own, Next[Name]++) << I;
    for (int32_t Part : {0, 1, 2})
      ASSERT_NEAR(Next[Part],
                  static_cast<double>(I + 1) *
                      Weights[static_cast<size_t>(Part)] / 10,
                  2);
  }
  EXPECT_EQ(Next[1], 700);
}

TEST(Mixture, JoinedInOrder) {
  JoinedSource Source(makeParts());
  int32_t Name = -1, Own = -1;
  Source.read(10, &Name, &Own);
  EXPECT_EQ(Name, 1);
  EXPECT_EQ(Own, 0);
  Source.read(33 + 21, &Name, &Own);
  EXPECT_EQ(Name, 2);
  EXPECT_EQ(Own, 0);
}

} // namespace

//===- PieceMergesTest.cpp - Byte-pair encoding of SentencePiece ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/PieceMerges.h"
#include "tokenizer/Unicode.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

using namespace poplar::runtime;

namespace {

using Scores = std::map<std::string, float>;
using Texts = std::vector<std::string>;

/// The definition: as long as there are neighbours that are a piece together,
/// those of the highest score, of equals the first, become one.
Texts mergeByDefinition(Texts Symbols, const Scores &Pieces) {
  for (;;) {
    size_t Best = Symbols.size();
    float Highest = 0;
    for (size_t I = 0; I + 1 < Symbols.size(); ++I) {
      auto Found = Pieces.find(Symbols[I] + Symbols[I + 1]);
      if (Found == Pieces.end() ||
          (Best < Symbols.size() && Found->second <= Highest))
        continue;
      Best = I;
      Highest = Found->second;
    }
    if (Best == Symbols.size())
      return Symbols;
    Symbols[Best] += Symbols[Best + 1];
    Symbols.erase(Symbols.begin() + static_cast<ptrdiff_t>(Best) + 1);
  }
}

/// Vocabularies at random: pieces in any order of scores, with equal scores,
/// whose parts need not be pieces, and characters that are in no piece.
TEST(PieceMergesTest, mergesByDefinition) {
  std::mt19937 Random(1);
  const Texts Alphabet = {"a", "b", "c", "é", "▁", "z"};
  auto Draw = [&](size_t Count) {
    return static_cast<size_t>(Random() % Count);
  };
  for (int Round = 0; Round < 300; ++Round) {
    Scores Pieces;
    for (size_t I = 0, E = 5 + Draw(40); I < E; ++I) {
      std::string Piece;
      for (size_t Length = 1 + Draw(5); Length; --Length)
        Piece += Alphabet[Draw(5)];
      Pieces.emplace(Piece, static_cast<float>(Draw(8)) - 4);
    }
    std::vector<PieceMerges::Piece> List;
    std::vector<std::string_view> ById;
    for (const auto &[Text, Score] : Pieces) {
      List.push_back({Text, Score, static_cast<int32_t>(List.size())});
      ById.push_back(Text);
    }
    PieceMerges Merges(List, static_cast<int32_t>(List.size()));
    PieceMerges::Scratch S;
    for (int Text = 0; Text < 20; ++Text) {
      Texts Symbols;
      std::string Whole;
      for (size_t Length = Draw(40); Length; --Length)
        Whole += Symbols.emplace_back(Alphabet[Draw(Alphabet.size())]);
      Texts Result;
      Merges.run(
          Whole, S,
          [&](size_t Begin, int32_t &Number) {
            size_t Length = unicode::getLength(Whole[Begin]);
            Number = Merges.getNumber(Whole.substr(Begin, Length));
            return Length;
          },
          [&](uint32_t Begin, uint32_t Size, int32_t Number) {
            Result.push_back(Whole.substr(Begin, Size));
            if (Number >= 0 && static_cast<size_t>(Number) < ById.size()) {
              EXPECT_EQ(ById[static_cast<size_t>(Number)], Result.back());
            } else {
              EXPECT_EQ(Pieces.count(Result.back()), 0u);
            }
          });
      ASSERT_EQ(Result, mergeByDefinition(Symbols, Pieces)) << Whole;
    }
  }
}

} // namespace

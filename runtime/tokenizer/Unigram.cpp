//===- Unigram.cpp - The most likely pieces -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Model.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <limits>

using namespace poplar::runtime;

namespace {

class Unigram : public Model {
public:
  explicit Unigram(const Description &D);

private:
  void encodeAnew(std::string_view Piece, ModelScratch &S,
                  std::vector<int32_t> &Out) const override;
  void findBestPath(std::string_view Piece, ModelScratch &S) const;
  /// The ids of a piece that the path takes as one.
  void put(std::string_view Text, std::vector<int32_t> &Out) const;

  std::vector<double> Scores;
  ByteTrie Trie;
  double UnknownScore = 0;
  int32_t Unknown = -1;
  int32_t ByteIds[256];
  bool FallsBack;
};

} // namespace

/// A score as serde_json reads it, which `tokenizers` uses: up to a last bit
/// from the nearest number. Of two equal paths the last bit decides.
static double readScore(std::string_view Text) {
  uint64_t Digits = 0;
  int Exponent = 0;
  bool IsNegative = false, IsFraction = false, IsFull = false;
  for (size_t I = 0; I < Text.size(); ++I) {
    char C = Text[I];
    if (C == '-') {
      IsNegative = true;
    } else if (C == '.') {
      IsFraction = true;
    } else if (C == 'e' || C == 'E') {
      I += Text[I + 1] == '+';
      int Written = 0;
      std::from_chars(Text.data() + I + 1, Text.data() + Text.size(), Written);
      Exponent += std::clamp(Written, -10000, 10000);
      break;
    } else {
      auto Digit = static_cast<uint64_t>(C - '0');
      IsFull |= Digits > (UINT64_MAX - Digit) / 10;
      if (!IsFull)
        Digits = Digits * 10 + Digit;
      // Digits that do not fit are dropped.
      Exponent += IsFull ? !IsFraction : -static_cast<int>(IsFraction);
    }
  }
  double Result = static_cast<double>(Digits);
  for (; Exponent < -308 && Result != 0; Exponent += 308)
    Result /= 1e308;
  double Power = std::strtod(
      ("1e" + std::to_string(std::min(std::abs(Exponent), 308))).c_str(),
      nullptr);
  Result = Exponent >= 0 ? Result * Power : Result / Power;
  return IsNegative ? -Result : Result;
}

Unigram::Unigram(const Description &D)
    : FallsBack(D.getBool("byte_fallback", false)) {
  const json::Value &List =
      D.get("vocab", json::Value::Array, "a list of tokens with scores");
  double Least = std::numeric_limits<double>::infinity();
  std::vector<ByteTrie::Item> Items;
  for (const json::Value &Each : List.elements()) {
    int64_t Id = static_cast<int64_t>(Scores.size());
    if (Each.elements().size() != 2 ||
        Each.elements()[0].kind() != json::Value::String ||
        Each.elements()[1].kind() != json::Value::Number)
      D.refuse("token ", Id, " of the vocabulary is not a string and a score");
    add(std::string(Each.elements()[0].asString()), Id, D);
    Scores.push_back(readScore(Each.elements()[1].getSpelling()));
    Least = std::min(Least, Scores.back());
  }
  for (size_t Id = 0; Id < Tokens.size(); ++Id)
    Items.push_back({Tokens[Id], find(Tokens[Id])});
  Trie = ByteTrie(std::move(Items));
  UnknownScore = Least - 10;
  int64_t Id = D.getInteger("unk_id", -1);
  if (Id >= static_cast<int64_t>(Scores.size()))
    D.refuse("unk_id ", Id, " is not in the vocabulary");
  Unknown = static_cast<int32_t>(Id);
  for (unsigned Byte = 0; Byte < 256; ++Byte) {
    char Name[8];
    std::snprintf(Name, sizeof Name, "<0x%02X>", Byte);
    ByteIds[Byte] = find(Name);
  }
}

void Unigram::findBestPath(std::string_view Piece, ModelScratch &S) const {
  S.Scores.assign(Piece.size() + 1, 0);
  S.PathIds.resize(Piece.size() + 1);
  S.Starts.assign(Piece.size() + 1, -1);
  for (size_t Begin = 0; Begin < Piece.size();) {
    double Score = S.Scores[Begin];
    size_t CharLength = unicode::getLength(Piece[Begin]);
    bool HasChar = false;
    auto Propose = [&](size_t Length, int32_t Id, double Candidate) {
      size_t End = Begin + Length;
      if (S.Starts[End] >= 0 && Candidate <= S.Scores[End])
        return;
      S.Scores[End] = Candidate;
      S.Starts[End] = static_cast<int32_t>(Begin);
      S.PathIds[End] = Id;
    };
    Trie.visitPrefixes(Piece.substr(Begin), [&](size_t Length, int32_t Id) {
      Propose(Length, Id, Scores[static_cast<size_t>(Id)] + Score);
      HasChar |= Length == CharLength;
    });
    if (!HasChar) {
      if (Unknown < 0)
        fail("the tokenizer meets an unknown character and has no unk_id");
      Propose(CharLength, Unknown, UnknownScore + Score);
    }
    Begin += CharLength;
  }
}

void Unigram::put(std::string_view Text, std::vector<int32_t> &Out) const {
  int32_t Id = find(Text);
  if (Id >= 0)
    return Out.push_back(Id);
  bool HasBytes =
      FallsBack && std::all_of(Text.begin(), Text.end(), [&](char C) {
        return ByteIds[static_cast<unsigned char>(C)] >= 0;
      });
  if (!HasBytes)
    return Out.push_back(Unknown);
  for (char C : Text)
    Out.push_back(ByteIds[static_cast<unsigned char>(C)]);
}

void Unigram::encodeAnew(std::string_view Piece, ModelScratch &S,
                         std::vector<int32_t> &Out) const {
  if (Piece.size() > std::numeric_limits<int32_t>::max())
    fail("a piece of a text has more than 2 GiB");
  findBestPath(Piece, S);
  // From the end; S.Starts then lists the pieces of the path.
  std::vector<int32_t> &Ends = S.Starts;
  size_t End = Piece.size(), Count = 0;
  std::vector<std::pair<int32_t, int32_t>> Path;
  while (End > 0) {
    auto Begin = static_cast<size_t>(Ends[End]);
    // A run of unknown characters is one piece.
    size_t First = Begin;
    if (S.PathIds[End] == Unknown)
      while (First > 0 && S.PathIds[First] == Unknown)
        First = static_cast<size_t>(Ends[First]);
    Path.emplace_back(static_cast<int32_t>(First), static_cast<int32_t>(End));
    End = First;
    ++Count;
  }
  while (Count-- > 0)
    put(Piece.substr(
            static_cast<size_t>(Path[Count].first),
            static_cast<size_t>(Path[Count].second - Path[Count].first)),
        Out);
}

std::unique_ptr<Model> poplar::runtime::readUnigram(const Description &D,
                                                    bool TakesBytes) {
  if (TakesBytes)
    D.refuse("this model after the pre-tokenizer ByteLevel is not supported");
  return std::make_unique<Unigram>(D);
}

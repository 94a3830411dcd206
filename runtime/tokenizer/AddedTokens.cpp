//===- AddedTokens.cpp - Tokens beside a vocabulary -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/AddedTokens.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime;
using unicode::is;

void AddedTokens::read(
    const Description &D, const Model &TheModel,
    const std::vector<std::unique_ptr<Normalizer>> &Normalizers) {
  NormalizerScratch Scratch;
  D.forEach("added_tokens", [&](const Description &Each) {
    AddedToken T;
    T.Content = Each.getString("content");
    T.IsWord = Each.getBool("single_word", false);
    T.StripsLeft = Each.getBool("lstrip", false);
    T.StripsRight = Each.getBool("rstrip", false);
    T.IsNormalized = Each.getBool("normalized", true);
    T.IsSpecial = Each.getBool("special", false);
    if (T.Content.empty())
      return;
    // A token of the vocabulary keeps its id; others follow the vocabulary.
    int64_t Id = Ids.find(T.Content);
    if (Id < 0)
      Id = TheModel.find(T.Content);
    if (Id < 0)
      Id = std::max(TheModel.size(), getLargestId() + 1);
    if (int64_t Asked = Each.getInteger("id", Id); Asked != Id)
      Each.refuse("the token ", json::quote(T.Content), " has the id ", Asked,
                  ", but its position gives ", Id);
    T.Id = static_cast<int32_t>(Id);
    T.Normalized = T.Content;
    if (T.IsNormalized)
      for (const auto &N : Normalizers)
        N->run(T.Normalized, Scratch);
    Ids.insert(T.Content, T.Id);
    if (T.IsSpecial)
      Specials.insert(T.Content);
    ById[Id] = std::move(T);
  });
  AsIs = makeFinder(false);
  Normalized = makeFinder(true);
}

AddedTokens::Finder AddedTokens::makeFinder(bool IsNormalized) const {
  Finder Result;
  std::vector<ByteTrie::Item> Items;
  for (const auto &[Id, T] : ById)
    if (T.IsNormalized == IsNormalized && !T.Normalized.empty()) {
      Items.push_back({T.Normalized, T.Id});
      Result.Starts[static_cast<unsigned char>(T.Normalized[0])] = true;
    }
  Result.IsUsed = !Items.empty();
  Result.Trie = ByteTrie(std::move(Items));
  return Result;
}

/// The next place at which a token may begin.
size_t AddedTokens::Finder::skipTo(std::string_view Text, size_t Pos) const {
  while (Pos < Text.size() && !Starts[static_cast<unsigned char>(Text[Pos])])
    ++Pos;
  return Pos;
}

/// The character that ends at `End`.
static char32_t getLast(std::string_view Text, size_t End) {
  size_t Begin = End - 1;
  while (unicode::isContinuation(Text[Begin]))
    --Begin;
  return unicode::next(Text, Begin);
}

/// Whether no character of a word touches [Begin, End).
bool AddedTokens::isWord(std::string_view Text, size_t Begin,
                         size_t End) const {
  if (Begin > 0 && is(getLast(Text, Begin), unicode::Word))
    return false;
  return End == Text.size() || !is(unicode::next(Text, End), unicode::Word);
}

void AddedTokens::split(std::string_view Text, bool IsNormalized,
                        std::vector<Section> &Out, size_t Start) const {
  Out.clear();
  const Finder &F = IsNormalized ? Normalized : AsIs;
  size_t Previous = Start;
  for (size_t Pos = Start; F.IsUsed;) {
    Pos = F.skipTo(Text, Pos);
    if (Pos == Text.size())
      break;
    int32_t Id = -1;
    size_t Length = F.Trie.findLongest(Text.substr(Pos), Id);
    if (!Length) {
      ++Pos;
      continue;
    }
    size_t Begin = Pos, End = Pos + Length;
    Pos = End;
    const AddedToken &T = ById.at(Id);
    if (T.IsWord && !isWord(Text, Begin, End))
      continue;
    if (T.StripsLeft) {
      while (Begin > 0 && is(getLast(Text, Begin), unicode::Whitespace)) {
        --Begin;
        while (unicode::isContinuation(Text[Begin]))
          --Begin;
      }
      Begin = std::max(Begin, Previous);
    }
    if (T.StripsRight)
      for (size_t After = End; After < Text.size(); End = After)
        if (!is(unicode::next(Text, After), unicode::Whitespace))
          break;
    if (Previous < Begin)
      Out.push_back({Previous, Begin, -1});
    Out.push_back({Begin, End, Id});
    Previous = End;
  }
  if (Previous < Text.size())
    Out.push_back({Previous, Text.size(), -1});
}

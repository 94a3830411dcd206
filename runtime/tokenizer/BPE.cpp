//===- BPE.cpp - Byte-pair encoding ---------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Model.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <cstdio>

using namespace poplar::runtime;

static constexpr uint32_t NoRank = ~0u;
/// "▁", the space of SentencePiece.
static constexpr char32_t SpaceMark = 0x2581;

namespace {

class BPE : public Model {
public:
  BPE(const Description &D, bool TakesBytes);

private:
  void encodeAnew(std::string_view Piece, ModelScratch &S,
                  std::vector<int32_t> &Out) const override;
  void encodeLong(std::string_view Piece, ModelScratch &S,
                  std::vector<int32_t> &Out) const override;

  void readMerges(const Description &D);
  void addMerge(const std::string &Left, const std::string &Right,
                uint32_t Rank, const Description &D);
  void findCuts();
  /// The id of a character with what its place asks for, or -1.
  int32_t findChar(std::string_view Char, bool IsFirst, bool IsLast,
                   std::string &Storage) const;
  void splitIntoChars(std::string_view Piece, ModelScratch &S) const;
  bool addFallback(std::string_view Char, std::vector<uint32_t> &Ids) const;
  void mergeShort(ModelScratch &S) const;
  void mergeLong(ModelScratch &S) const;

  bool TakesBytes, FusesUnknown, FallsBack, IgnoresMerges;
  std::string Prefix, Suffix;
  int32_t Unknown = -1;
  std::string UnknownName;
  PairMap Pairs;
  size_t NumMerges = 0;
  /// Ids of bytes or ASCII characters, and of tokens like <0x0A>.
  int32_t CharIds[256], ByteIds[256];
  /// With TakesBytes: the bytes of every token that is made of them.
  StringMap ByBytes;
  /// Characters behind which "▁" occurs inside a token. Behind any other, a
  /// text can be cut before "▁" without a difference.
  std::vector<char32_t> BeforeSpace;
  bool CanCut = false;
};

} // namespace

BPE::BPE(const Description &D, bool TakesBytes)
    : Model(D), TakesBytes(TakesBytes),
      FusesUnknown(D.getBool("fuse_unk", false)),
      FallsBack(D.getBool("byte_fallback", false)),
      IgnoresMerges(D.getBool("ignore_merges", false)),
      Prefix(D.getString("continuing_subword_prefix", "")),
      Suffix(D.getString("end_of_word_suffix", "")) {
  if (const json::Value *Dropout = D.find("dropout"))
    if (Dropout->asDouble() != 0)
      D.refuse("dropout of merges is not supported");
  if (D.find("unk_token")) {
    UnknownName = D.getString("unk_token");
    Unknown = find(UnknownName);
  }
  for (int Byte = 0; Byte < 256; ++Byte) {
    std::string Char;
    unicode::append(Char, TakesBytes ? unicode::getCharOfByte(
                                           static_cast<unsigned char>(Byte))
                                     : static_cast<char32_t>(Byte));
    CharIds[Byte] = find(Char);
    char Name[8];
    std::snprintf(Name, sizeof Name, "<0x%02X>", static_cast<unsigned>(Byte));
    ByteIds[Byte] = find(Name);
  }
  readMerges(D);
  if (TakesBytes && IgnoresMerges)
    for (size_t Id = 0; Id < Tokens.size(); ++Id) {
      std::string Bytes;
      bool IsWhole = Exists[Id] && !Tokens[Id].empty();
      for (size_t Pos = 0; IsWhole && Pos < Tokens[Id].size();) {
        int Byte = unicode::getByteOfChar(unicode::next(Tokens[Id], Pos));
        IsWhole = Byte >= 0;
        Bytes += static_cast<char>(Byte);
      }
      if (IsWhole)
        ByBytes.insert(Bytes, static_cast<int32_t>(Id));
    }
  if (!TakesBytes && Prefix.empty() && Suffix.empty())
    findCuts();
}

void BPE::readMerges(const Description &D) {
  const json::Value &List =
      D.get("merges", json::Value::Array, "a list of merges");
  NumMerges = List.elements().size();
  Pairs = PairMap(NumMerges);
  uint32_t Rank = 0;
  for (const json::Value &Merge : List.elements()) {
    if (Merge.kind() == json::Value::String) {
      std::string Text(Merge.asString());
      size_t Space = Text.find(' ');
      if (Space == Text.npos || Text.find(' ', Space + 1) != Text.npos)
        D.refuse("merge ", Rank, ", ", json::quote(Text),
                 ", is not two tokens with a space between");
      addMerge(Text.substr(0, Space), Text.substr(Space + 1), Rank++, D);
    } else {
      if (Merge.elements().size() != 2)
        D.refuse("merge ", Rank, " is not a pair of tokens");
      addMerge(std::string(Merge.elements()[0].asString()),
               std::string(Merge.elements()[1].asString()), Rank++, D);
    }
  }
}

void BPE::addMerge(const std::string &Left, const std::string &Right,
                   uint32_t Rank, const Description &D) {
  std::string Merged = Left;
  if (Right.size() >= Prefix.size())
    Merged += Right.substr(Prefix.size());
  int32_t LeftId = find(Left), RightId = find(Right), Id = find(Merged);
  if (LeftId < 0 || RightId < 0 || Id < 0)
    D.refuse("merge ", Rank, " is of ", json::quote(Left), " and ",
             json::quote(Right), ", and the vocabulary lacks ",
             json::quote(LeftId < 0    ? Left
                         : RightId < 0 ? Right
                                       : Merged));
  Pairs.insert(static_cast<uint32_t>(LeftId), static_cast<uint32_t>(RightId),
               Rank, static_cast<uint32_t>(Id));
}

void BPE::findCuts() {
  CanCut = true;
  for (size_t Id = 0; Id < Tokens.size(); ++Id) {
    char32_t Previous = 0;
    for (size_t Pos = 0; Pos < Tokens[Id].size();) {
      char32_t C = unicode::next(Tokens[Id], Pos);
      if (C == SpaceMark && Previous)
        BeforeSpace.push_back(Previous);
      Previous = C;
    }
  }
  std::sort(BeforeSpace.begin(), BeforeSpace.end());
  BeforeSpace.erase(std::unique(BeforeSpace.begin(), BeforeSpace.end()),
                    BeforeSpace.end());
}

int32_t BPE::findChar(std::string_view Char, bool IsFirst, bool IsLast,
                      std::string &Storage) const {
  bool IsPlain = (IsFirst || Prefix.empty()) && (!IsLast || Suffix.empty());
  if (IsPlain && Char.size() == 1)
    return CharIds[static_cast<unsigned char>(Char[0])];
  if (IsPlain && !TakesBytes)
    return find(Char);
  Storage.clear();
  if (!IsFirst)
    Storage += Prefix;
  if (TakesBytes)
    unicode::append(
        Storage, unicode::getCharOfByte(static_cast<unsigned char>(Char[0])));
  else
    Storage += Char;
  if (IsLast)
    Storage += Suffix;
  return find(Storage);
}

bool BPE::addFallback(std::string_view Char, std::vector<uint32_t> &Ids) const {
  for (char Byte : Char)
    if (ByteIds[static_cast<unsigned char>(Byte)] < 0)
      return false;
  for (char Byte : Char)
    Ids.push_back(
        static_cast<uint32_t>(ByteIds[static_cast<unsigned char>(Byte)]));
  return true;
}

void BPE::splitIntoChars(std::string_view Piece, ModelScratch &S) const {
  S.Ids.clear();
  bool HasUnknown = false;
  auto Flush = [&] {
    if (HasUnknown)
      S.Ids.push_back(static_cast<uint32_t>(Unknown));
    HasUnknown = false;
  };
  for (size_t Pos = 0; Pos < Piece.size();) {
    size_t Length = TakesBytes ? 1 : unicode::getLength(Piece[Pos]);
    std::string_view Char = Piece.substr(Pos, Length);
    bool IsFirst = Pos == 0;
    Pos += Length;
    bool IsLast = Pos == Piece.size();
    int32_t Id = findChar(Char, IsFirst, IsLast, S.Text);
    if (Id >= 0) {
      Flush();
      S.Ids.push_back(static_cast<uint32_t>(Id));
      continue;
    }
    // Bytes do not end a run of unknown characters, in `tokenizers` either.
    if (FallsBack) {
      std::string Mapped;
      if (TakesBytes)
        unicode::append(Mapped, unicode::getCharOfByte(
                                    static_cast<unsigned char>(Char[0])));
      std::string Whole = (IsFirst ? "" : Prefix) +
                          (TakesBytes ? Mapped : std::string(Char)) +
                          (IsLast ? Suffix : "");
      if (addFallback(Whole, S.Ids))
        continue;
    }
    if (UnknownName.empty())
      continue;
    if (Unknown < 0)
      fail("the unknown token ", json::quote(UnknownName),
           " of the tokenizer is not in its vocabulary");
    if (!FusesUnknown)
      Flush();
    HasUnknown = true;
  }
  Flush();
}

/// Merges the pair of the lowest rank, the first of equals, until there is
/// none. For few symbols a scan is faster than a queue.
void BPE::mergeShort(ModelScratch &S) const {
  size_t Count = S.Ids.size();
  S.Ranks.resize(Count);
  S.NewIds.resize(Count);
  auto Rate = [&](size_t I) {
    const PairMap::Entry *E =
        I + 1 < Count ? Pairs.find(S.Ids[I], S.Ids[I + 1]) : nullptr;
    S.Ranks[I] = E ? E->First : NoRank;
    S.NewIds[I] = E ? E->Second : 0;
  };
  for (size_t I = 0; I < Count; ++I)
    Rate(I);
  while (Count > 1) {
    size_t Best = 0;
    uint32_t Rank = NoRank;
    for (size_t I = 0; I < Count; ++I)
      if (S.Ranks[I] < Rank) {
        Rank = S.Ranks[I];
        Best = I;
      }
    if (Rank == NoRank)
      break;
    S.Ids[Best] = S.NewIds[Best];
    for (auto *List : {&S.Ids, &S.Ranks, &S.NewIds})
      std::copy(List->begin() + static_cast<ptrdiff_t>(Best) + 2,
                List->begin() + static_cast<ptrdiff_t>(Count),
                List->begin() + static_cast<ptrdiff_t>(Best) + 1);
    --Count;
    Rate(Best);
    if (Best > 0)
      Rate(Best - 1);
  }
  S.Ids.resize(Count);
}

void BPE::mergeLong(ModelScratch &S) const {
  using Merge = ModelScratch::Merge;
  auto IsLater = [](const Merge &A, const Merge &B) {
    return A.Rank != B.Rank ? A.Rank > B.Rank : A.Position > B.Position;
  };
  auto Count = static_cast<int32_t>(S.Ids.size());
  S.Symbols.clear();
  S.Merges.clear();
  for (int32_t I = 0; I < Count; ++I)
    S.Symbols.push_back({S.Ids[static_cast<size_t>(I)], I - 1,
                         I + 1 < Count ? I + 1 : -1, false});
  auto At = [&](int32_t I) -> ModelScratch::Symbol & {
    return S.Symbols[static_cast<size_t>(I)];
  };
  auto Find = [&](int32_t Left) {
    int32_t Right = At(Left).Next;
    return Right < 0 ? nullptr : Pairs.find(At(Left).Id, At(Right).Id);
  };
  for (int32_t I = 0; I + 1 < Count; ++I)
    if (const PairMap::Entry *E = Find(I))
      S.Merges.push_back({E->First, static_cast<uint32_t>(I), E->Second});
  std::make_heap(S.Merges.begin(), S.Merges.end(), IsLater);
  auto Push = [&](int32_t Left) {
    const PairMap::Entry *E = Find(Left);
    if (!E)
      return;
    S.Merges.push_back({E->First, static_cast<uint32_t>(Left), E->Second});
    std::push_heap(S.Merges.begin(), S.Merges.end(), IsLater);
  };
  while (!S.Merges.empty()) {
    std::pop_heap(S.Merges.begin(), S.Merges.end(), IsLater);
    Merge Top = S.Merges.back();
    S.Merges.pop_back();
    auto Left = static_cast<int32_t>(Top.Position);
    if (At(Left).IsGone)
      continue;
    // The pair may have changed since.
    const PairMap::Entry *E = Find(Left);
    if (!E || E->Second != Top.Id)
      continue;
    int32_t Right = At(Left).Next;
    At(Left).Id = Top.Id;
    At(Left).Next = At(Right).Next;
    At(Right).IsGone = true;
    if (At(Left).Next >= 0)
      At(At(Left).Next).Previous = Left;
    if (At(Left).Previous >= 0)
      Push(At(Left).Previous);
    Push(Left);
  }
  S.Ids.clear();
  for (const ModelScratch::Symbol &Each : S.Symbols)
    if (!Each.IsGone)
      S.Ids.push_back(Each.Id);
}

void BPE::encodeAnew(std::string_view Piece, ModelScratch &S,
                     std::vector<int32_t> &Out) const {
  if (IgnoresMerges) {
    int32_t Id = TakesBytes ? ByBytes.find(Piece) : find(Piece);
    if (Id >= 0)
      return Out.push_back(Id);
  }
  splitIntoChars(Piece, S);
  if (S.Ids.size() <= 48)
    mergeShort(S);
  else
    mergeLong(S);
  Out.insert(Out.end(), S.Ids.begin(), S.Ids.end());
}

/// A text without a pre-tokenizer is one long piece. Where no token spans the
/// end of a word, its words are encoded one by one.
void BPE::encodeLong(std::string_view Piece, ModelScratch &S,
                     std::vector<int32_t> &Out) const {
  std::string Mark;
  unicode::append(Mark, SpaceMark);
  if (!CanCut || find(Mark) < 0 || (IgnoresMerges && find(Piece) >= 0))
    return encodeAnew(Piece, S, Out);
  size_t Begin = 0;
  auto EncodePart = [&](size_t End) {
    std::string_view Part = Piece.substr(Begin, End - Begin);
    Begin = End;
    if (Part.size() >= LongPiece || IgnoresMerges)
      return encodeAnew(Part, S, Out);
    encode(Part, S, Out);
  };
  for (size_t At = Piece.find(Mark, 1); At != Piece.npos;
       At = Piece.find(Mark, At + Mark.size())) {
    size_t Before = At - 1;
    while (unicode::isContinuation(Piece[Before]))
      --Before;
    size_t Pos = Before;
    char32_t Previous = unicode::next(Piece, Pos);
    // Next to unknown characters, runs of them could be cut.
    if (std::binary_search(BeforeSpace.begin(), BeforeSpace.end(), Previous) ||
        find(Piece.substr(Before, At - Before)) < 0)
      continue;
    EncodePart(At);
  }
  EncodePart(Piece.size());
}

std::unique_ptr<Model> poplar::runtime::readBPE(const Description &D,
                                                bool TakesBytes) {
  return std::make_unique<BPE>(D, TakesBytes);
}

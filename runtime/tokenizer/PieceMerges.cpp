//===- PieceMerges.cpp - Byte-pair encoding of SentencePiece --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/PieceMerges.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <iterator>

using namespace poplar::runtime;

/// The higher a score, the lower its rank.
static uint32_t getRank(float Score) {
  Score += 0.0f; // of -0
  uint32_t Bits;
  std::memcpy(&Bits, &Score, sizeof Bits);
  return Bits >> 31 ? Bits : ~(Bits | 1u << 31);
}

PieceMerges::PieceMerges(const std::vector<Piece> &Pieces, int32_t Count) {
  StringMap Numbers;
  for (const Piece &P : Pieces)
    Numbers.insert(P.Text, P.Id);
  struct Found {
    int32_t Left, Right;
    uint32_t Rank, Number;
  };
  std::vector<Found> Merges, Neighbours;
  std::vector<std::string_view> Parts;
  for (const Piece &P : Pieces) {
    Parts.clear();
    for (size_t Begin = 0; Begin < P.Text.size();) {
      std::string_view Part =
          P.Text.substr(Begin, unicode::getLength(P.Text[Begin]));
      Begin += Part.size();
      Parts.push_back(Part);
      if (Numbers.find(Part) < 0)
        Numbers.insert(Part, Count++);
      Characters.insert(Part, Numbers.find(Part));
    }
    size_t Begin = 0;
    for (size_t I = 1; I < Parts.size(); ++I) {
      Begin += Parts[I - 1].size();
      Neighbours.push_back(
          {Numbers.find(Parts[I - 1]), Numbers.find(Parts[I]), 0, NoPiece});
      int32_t Left = Numbers.find(P.Text.substr(0, Begin)),
              Right = Numbers.find(P.Text.substr(Begin));
      if (Left >= 0 && Right >= 0)
        Merges.push_back(
            {Left, Right, getRank(P.Score), static_cast<uint32_t>(P.Id)});
    }
  }
  Pairs = PairMap(Neighbours.size() + Merges.size());
  for (const std::vector<Found> *List : {&Neighbours, &Merges})
    for (const Found &F : *List)
      Pairs.insert(static_cast<uint32_t>(F.Left),
                   static_cast<uint32_t>(F.Right), F.Rank, F.Number);
  for (size_t Code = 0; Code < std::size(OfASCII); ++Code) {
    char Character = static_cast<char>(Code);
    OfASCII[Code] = Characters.find({&Character, 1});
  }
}

bool PieceMerges::addPair(const PairMap::Entry &E, int32_t Left, int32_t Right,
                          Scratch &S) const {
  if (E.Second == NoPiece)
    return false;
  S.Pairs.push_back(
      {static_cast<uint64_t>(E.First) << 32 | static_cast<uint32_t>(Left),
       Right, static_cast<int32_t>(E.Second),
       S.Symbols[static_cast<size_t>(Left)].Size +
           S.Symbols[static_cast<size_t>(Right)].Size});
  return true;
}

/// Merges until no two neighbours are a piece.
void PieceMerges::merge(Scratch &S) const {
  auto IsLater = [](const Pair &A, const Pair &B) { return A.Order > B.Order; };
  auto At = [&](int32_t I) -> Symbol & {
    return S.Symbols[static_cast<size_t>(I)];
  };
  auto Push = [&](int32_t Left, int32_t Right) {
    if (Left < 0 || Right < 0)
      return;
    const PairMap::Entry *E = find(At(Left).Number, At(Right).Number);
    if (E && addPair(*E, Left, Right, S))
      std::push_heap(S.Pairs.begin(), S.Pairs.end(), IsLater);
  };
  std::make_heap(S.Pairs.begin(), S.Pairs.end(), IsLater);
  while (!S.Pairs.empty()) {
    std::pop_heap(S.Pairs.begin(), S.Pairs.end(), IsLater);
    Pair Top = S.Pairs.back();
    S.Pairs.pop_back();
    auto Index = static_cast<int32_t>(static_cast<uint32_t>(Top.Order));
    Symbol &Left = At(Index), &Right = At(Top.Right);
    // Either may have been merged since.
    if (!Left.Size || !Right.Size || Left.Size + Right.Size != Top.Size)
      continue;
    Left.Size = Top.Size;
    Left.Number = Top.Number;
    Left.Next = Right.Next;
    if (Right.Next >= 0)
      At(Right.Next).Previous = Index;
    Right.Size = 0;
    Push(Left.Previous, Index);
    Push(Index, Left.Next);
  }
}

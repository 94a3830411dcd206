//===- PieceMerges.h - Byte-pair encoding of SentencePiece ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_PIECEMERGES_H
#define POPLAR_RUNTIME_TOKENIZER_PIECEMERGES_H

#include "tokenizer/Tables.h"

#include <string_view>
#include <vector>

namespace poplar::runtime {

/// Which neighbours become one symbol: those that are a piece together,
/// whatever they were made of; the highest score first, of equals the first in
/// the text. A symbol has a number: that of its piece, or, of a character that
/// only occurs inside of pieces, one above those of pieces.
class PieceMerges {
public:
  struct Piece {
    std::string_view Text;
    float Score;
    /// The least is 0, and the largest is less than the count that the
    /// constructor takes.
    int32_t Id;
  };
  struct Symbol {
    uint32_t Begin;
    /// 0 when it has become a part of the one before.
    uint32_t Size;
    int32_t Number;
    int32_t Previous, Next;
  };
  /// Neighbours that are a piece together.
  struct Pair {
    /// Rank of the piece and index of the left symbol; the least is first.
    uint64_t Order;
    int32_t Right, Number;
    uint32_t Size;
  };
  struct Scratch {
    std::vector<Symbol> Symbols;
    std::vector<Pair> Pairs;
  };

  PieceMerges() = default;
  PieceMerges(const std::vector<Piece> &Pieces, int32_t Count);

  /// The number of a character; -1 if it is in no piece.
  int32_t getNumber(std::string_view Character) const {
    auto First = static_cast<unsigned char>(Character[0]);
    return First < 128 ? OfASCII[First] : Characters.find(Character);
  }

  /// Calls `Visit(Begin, Size, Number)` for the symbols of a text in their
  /// order. `GetLength(Begin, Number)` is the length of the first symbol of the
  /// text there, and sets its number: -1 for one that is never merged.
  template <typename GetLengthT, typename VisitT>
  void run(std::string_view Text, Scratch &S, const GetLengthT &GetLength,
           const VisitT &Visit) const {
    S.Symbols.clear();
    S.Pairs.clear();
    int32_t Before = -1;
    for (size_t Begin = 0; Begin < Text.size();) {
      int32_t Number = -1;
      size_t Length = GetLength(Begin, Number);
      const PairMap::Entry *E = find(Before, Number);
      // A boundary that no piece spans ends a separate text.
      if (!E)
        finish(S, Visit);
      auto Index = static_cast<int32_t>(S.Symbols.size());
      S.Symbols.push_back({static_cast<uint32_t>(Begin),
                           static_cast<uint32_t>(Length), Number, Index - 1,
                           Index + 1});
      if (E)
        addPair(*E, Index - 1, Index, S);
      Before = Number;
      Begin += Length;
    }
    finish(S, Visit);
  }

private:
  /// A pair of characters that is no piece, but is inside of one.
  static constexpr uint32_t NoPiece = ~0u;

  const PairMap::Entry *find(int32_t Left, int32_t Right) const {
    return Left < 0 || Right < 0 ? nullptr
                                 : Pairs.find(static_cast<uint32_t>(Left),
                                              static_cast<uint32_t>(Right));
  }
  bool addPair(const PairMap::Entry &E, int32_t Left, int32_t Right,
               Scratch &S) const;
  void merge(Scratch &S) const;

  template <typename VisitT>
  void finish(Scratch &S, const VisitT &Visit) const {
    if (S.Symbols.empty())
      return;
    S.Symbols.back().Next = -1;
    if (!S.Pairs.empty())
      merge(S);
    for (int32_t I = 0; I >= 0;) {
      const Symbol &Each = S.Symbols[static_cast<size_t>(I)];
      Visit(Each.Begin, Each.Size, Each.Number);
      I = Each.Next;
    }
    S.Symbols.clear();
  }

  int32_t OfASCII[128];
  StringMap Characters;
  /// To the rank of a piece and its number.
  PairMap Pairs;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_PIECEMERGES_H

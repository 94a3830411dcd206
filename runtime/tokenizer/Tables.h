//===- Tables.h - Vocabularies as tables and tries --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_TABLES_H
#define POPLAR_RUNTIME_TOKENIZER_TABLES_H

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

uint64_t hashBytes(std::string_view Text);

/// Maps strings to non-negative numbers; of several for one string, the last
/// counts. Strings are copied.
class StringMap {
public:
  void reserve(size_t Count);
  void insert(std::string_view Key, int32_t Value);
  /// -1 if there is none.
  int32_t find(std::string_view Key) const;
  size_t size() const { return Used; }

private:
  struct Slot {
    uint32_t Tag = 0;
    uint32_t Size = 0;
    uint64_t Begin = 0;
    int32_t Value = -1;
  };
  void grow(size_t Slots);

  std::vector<Slot> Slots;
  std::string Keys;
  size_t Used = 0;
};

/// Maps pairs of numbers to pairs of numbers.
class PairMap {
public:
  struct Entry {
    uint64_t Key = ~0ull;
    uint32_t First = 0, Second = 0;
  };

  explicit PairMap(size_t Count = 0);
  void insert(uint32_t Left, uint32_t Right, uint32_t First, uint32_t Second);
  /// Null if there is none.
  const Entry *find(uint32_t Left, uint32_t Right) const {
    uint64_t Key = static_cast<uint64_t>(Left) << 32 | Right;
    for (size_t At = getSlot(Key);; At = (At + 1) & Mask) {
      const Entry &E = Entries[At];
      if (E.Key == Key)
        return &E;
      if (E.Key == ~0ull)
        return nullptr;
    }
  }

private:
  size_t getSlot(uint64_t Key) const {
    return static_cast<size_t>(Key * 0x9E3779B97F4A7C15 >> Shift) & Mask;
  }
  std::vector<Entry> Entries;
  size_t Mask;
  int Shift;
};

/// The ids of pieces that were encoded before. Forgets all when it is full.
class PieceCache {
public:
  PieceCache();
  /// Appends the ids of `Piece` to `Out`, if they are known.
  bool find(std::string_view Piece, uint64_t Hash,
            std::vector<int32_t> &Out) const;
  /// `Ids` are those of `Piece`, which was not found.
  void insert(std::string_view Piece, uint64_t Hash, const int32_t *Ids,
              size_t Count);

private:
  struct Slot {
    uint64_t Hash = 0;
    uint32_t Begin = 0, Size = 0;
    uint32_t FirstId = 0, Count = 0;
  };
  static constexpr size_t NumSlots = size_t(1) << 17;
  std::vector<Slot> Slots;
  std::string Texts;
  std::vector<int32_t> Ids;
  size_t Used = 0;
};

/// A set of strings with values, of which those that a text begins with are
/// found in one walk.
class ByteTrie {
public:
  struct Item {
    std::string_view Text;
    int32_t Value;
  };
  ByteTrie() = default;
  /// The last of several items with the same text counts. Empty texts are left
  /// out.
  explicit ByteTrie(std::vector<Item> Items);

  bool empty() const { return Nodes.size() <= 1; }
  /// Calls `Visit(Length, Value)` for each string that `Text` begins with, the
  /// shortest first.
  template <typename Callback>
  void visitPrefixes(std::string_view Text, const Callback &Visit) const {
    uint32_t Node = 0;
    for (size_t I = 0; I < Text.size(); ++I) {
      if (!descend(Node, static_cast<unsigned char>(Text[I])))
        return;
      if (Nodes[Node].Value >= 0)
        Visit(I + 1, Nodes[Node].Value);
    }
  }
  /// Length of the longest string that `Text` begins with; 0 without one.
  size_t findLongest(std::string_view Text, int32_t &Value) const {
    size_t Longest = 0;
    visitPrefixes(Text, [&](size_t Length, int32_t Found) {
      Longest = Length;
      Value = Found;
    });
    return Longest;
  }

private:
  struct Node {
    uint32_t First = 0;
    uint32_t Count = 0;
    int32_t Value = -1;
  };
  bool descend(uint32_t &At, unsigned char Label) const {
    if (At == 0) {
      At = Roots[Label];
      return At != 0;
    }
    const Node &N = Nodes[At];
    const unsigned char *Begin = Labels.data() + N.First;
    if (N.Count == 1) {
      if (*Begin != Label)
        return false;
      At = N.First;
      return true;
    }
    auto *Found = static_cast<const unsigned char *>(
        N.Count ? std::memchr(Begin, Label, N.Count) : nullptr);
    if (!Found)
      return false;
    At = static_cast<uint32_t>(Found - Labels.data());
    return true;
  }
  void build(const std::vector<Item> &Items, size_t Begin, size_t End,
             size_t Depth, uint32_t At);

  /// The children of a node follow one another; their labels likewise.
  std::vector<Node> Nodes;
  std::vector<unsigned char> Labels;
  uint32_t Roots[256] = {};
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_TABLES_H

//===- Tables.cpp - Vocabularies as tables and tries ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/Tables.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace poplar::runtime;

uint64_t poplar::runtime::hashBytes(std::string_view Text) {
  return XXH3_64bits(Text.data(), Text.size());
}

static size_t getPowerOfTwo(size_t Count) {
  size_t Result = 16;
  while (Result < Count)
    Result *= 2;
  return Result;
}

void StringMap::reserve(size_t Count) {
  size_t Needed = getPowerOfTwo(2 * Count);
  if (Needed > Slots.size())
    grow(Needed);
}

void StringMap::grow(size_t Count) {
  std::vector<Slot> Old(Count);
  Old.swap(Slots);
  for (const Slot &S : Old) {
    if (S.Value < 0)
      continue;
    size_t At = hashBytes({Keys.data() + S.Begin, S.Size});
    while (Slots[At &= Slots.size() - 1].Value >= 0)
      ++At;
    Slots[At] = S;
  }
}

void StringMap::insert(std::string_view Key, int32_t Value) {
  if (2 * (Used + 1) > Slots.size())
    grow(getPowerOfTwo(4 * (Used + 1)));
  uint64_t Hash = hashBytes(Key);
  auto Tag = static_cast<uint32_t>(Hash >> 32);
  for (size_t At = Hash;; ++At) {
    Slot &S = Slots[At &= Slots.size() - 1];
    if (S.Value < 0) {
      S = {Tag, static_cast<uint32_t>(Key.size()), Keys.size(), Value};
      Keys += Key;
      ++Used;
      return;
    }
    if (S.Tag == Tag && S.Size == Key.size() &&
        std::memcmp(Keys.data() + S.Begin, Key.data(), Key.size()) == 0) {
      S.Value = Value;
      return;
    }
  }
}

int32_t StringMap::find(std::string_view Key) const {
  if (Slots.empty())
    return -1;
  uint64_t Hash = hashBytes(Key);
  auto Tag = static_cast<uint32_t>(Hash >> 32);
  for (size_t At = Hash;; ++At) {
    const Slot &S = Slots[At &= Slots.size() - 1];
    if (S.Value < 0)
      return -1;
    if (S.Tag == Tag && S.Size == Key.size() &&
        std::memcmp(Keys.data() + S.Begin, Key.data(), Key.size()) == 0)
      return S.Value;
  }
}

PairMap::PairMap(size_t Count)
    : Entries(getPowerOfTwo(2 * Count + 1)), Mask(Entries.size() - 1),
      Shift(64) {
  for (size_t Size = Entries.size(); Size > 1; Size /= 2)
    --Shift;
}

void PairMap::insert(uint32_t Left, uint32_t Right, uint32_t First,
                     uint32_t Second) {
  uint64_t Key = static_cast<uint64_t>(Left) << 32 | Right;
  size_t At = getSlot(Key);
  while (Entries[At].Key != ~0ull && Entries[At].Key != Key)
    At = (At + 1) & Mask;
  Entries[At] = {Key, First, Second};
}

PieceCache::PieceCache() : Slots(NumSlots) {}

bool PieceCache::find(std::string_view Piece, uint64_t Hash,
                      std::vector<int32_t> &Out) const {
  for (size_t At = Hash;; ++At) {
    const Slot &S = Slots[At &= NumSlots - 1];
    if (!S.Size)
      return false;
    if (S.Hash != Hash || S.Size != Piece.size() ||
        std::memcmp(Texts.data() + S.Begin, Piece.data(), S.Size) != 0)
      continue;
    // Most pieces are one or two tokens.
    const int32_t *From = Ids.data() + S.FirstId;
    for (uint32_t I = 0; I < S.Count; ++I)
      Out.push_back(From[I]);
    return true;
  }
}

void PieceCache::insert(std::string_view Piece, uint64_t Hash,
                        const int32_t *NewIds, size_t Count) {
  if (Used > NumSlots / 2 || Texts.size() > (size_t(1) << 25)) {
    std::fill(Slots.begin(), Slots.end(), Slot());
    Texts.clear();
    Ids.clear();
    Used = 0;
  }
  size_t At = Hash;
  while (Slots[At &= NumSlots - 1].Size)
    ++At;
  Slots[At] = {Hash, static_cast<uint32_t>(Texts.size()),
               static_cast<uint32_t>(Piece.size()),
               static_cast<uint32_t>(Ids.size()), static_cast<uint32_t>(Count)};
  Texts += Piece;
  Ids.insert(Ids.end(), NewIds, NewIds + Count);
  ++Used;
}

ByteTrie::ByteTrie(std::vector<Item> Items) {
  std::stable_sort(
      Items.begin(), Items.end(),
      [](const Item &A, const Item &B) { return A.Text < B.Text; });
  size_t First = 0;
  while (First < Items.size() && Items[First].Text.empty())
    ++First;
  Nodes.resize(1);
  Labels.resize(1);
  build(Items, First, Items.size(), 0, 0);
  for (uint32_t I = 0; I < Nodes[0].Count; ++I)
    Roots[Labels[Nodes[0].First + I]] = Nodes[0].First + I;
}

void ByteTrie::build(const std::vector<Item> &Items, size_t Begin, size_t End,
                     size_t Depth, uint32_t At) {
  // Those that end here come first.
  for (; Begin < End && Items[Begin].Text.size() == Depth; ++Begin)
    Nodes[At].Value = Items[Begin].Value;
  auto First = static_cast<uint32_t>(Nodes.size());
  std::vector<size_t> Starts;
  for (size_t I = Begin; I < End; ++I)
    if (I == Begin || Items[I].Text[Depth] != Items[I - 1].Text[Depth]) {
      Starts.push_back(I);
      Nodes.emplace_back();
      Labels.push_back(static_cast<unsigned char>(Items[I].Text[Depth]));
    }
  Nodes[At].First = First;
  Nodes[At].Count = static_cast<uint32_t>(Starts.size());
  Starts.push_back(End);
  for (size_t I = 0; I + 1 < Starts.size(); ++I)
    build(Items, Starts[I], Starts[I + 1], Depth + 1,
          First + static_cast<uint32_t>(I));
}

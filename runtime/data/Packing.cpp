//===- Packing.cpp - Which examples share a sample ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Packing.h"

#include <algorithm>
#include <numeric>

using namespace poplar::runtime;

static size_t toSize(int64_t Number) { return static_cast<size_t>(Number); }

Packing::Packing(std::vector<int32_t> TheLengths, int64_t Capacity)
    : Lengths(std::move(TheLengths)), Capacity(Capacity),
      Filled(std::accumulate(Lengths.begin(), Lengths.end(), int64_t(0))),
      Sorted(Lengths.size()), SampleOf(Lengths.size()),
      Starts(toSize(Capacity) + 2), FirstWith(toSize(Capacity) + 1),
      NextWith(Lengths.size()), Rooms(toSize(Capacity) / 64 + 1),
      Members(Lengths.size()), Offsets(Lengths.size() + 1) {
  pack(nullptr);
}

/// By counting, so that it keeps the order.
void Packing::sort(const Permutation *Order) {
  std::fill(Starts.begin(), Starts.end(), 0);
  // Longer ones are before.
  for (int32_t Length : Lengths)
    ++Starts[toSize(Capacity - Length) + 1];
  std::partial_sum(Starts.begin(), Starts.end(), Starts.begin());
  for (size_t I = 0; I < Lengths.size(); ++I) {
    uint64_t Example = Order ? (*Order)(I) : I;
    int64_t &Next = Starts[toSize(Capacity - Lengths[Example])];
    Sorted[toSize(Next++)] = static_cast<int64_t>(Example);
  }
}

/// The least room that is enough, or -1.
int64_t Packing::findRoom(int64_t Length) const {
  size_t Word = toSize(Length) / 64;
  uint64_t Bits = Rooms[Word] & ~uint64_t(0) << Length % 64;
  while (!Bits && ++Word < Rooms.size())
    Bits = Rooms[Word];
  return Bits ? static_cast<int64_t>(Word * 64) + __builtin_ctzll(Bits) : -1;
}

int64_t Packing::takeSample(int64_t Room) {
  int64_t Sample = FirstWith[toSize(Room)];
  FirstWith[toSize(Room)] = NextWith[toSize(Sample)];
  if (FirstWith[toSize(Room)] < 0)
    Rooms[toSize(Room) / 64] &= ~(uint64_t(1) << Room % 64);
  return Sample;
}

void Packing::giveSample(int64_t Sample, int64_t Room) {
  NextWith[toSize(Sample)] = FirstWith[toSize(Room)];
  FirstWith[toSize(Room)] = Sample;
  Rooms[toSize(Room) / 64] |= uint64_t(1) << Room % 64;
}

void Packing::pack(const Permutation *Order) {
  sort(Order);
  std::fill(FirstWith.begin(), FirstWith.end(), -1);
  std::fill(Rooms.begin(), Rooms.end(), 0);
  std::fill(Offsets.begin(), Offsets.end(), 0);
  Count = 0;
  for (size_t I = 0; I < Sorted.size(); ++I) {
    int64_t Length = length(Sorted[I]), Room = findRoom(Length);
    int64_t Sample = Room < 0 ? Count++ : takeSample(Room);
    if (Room < 0)
      Room = Capacity;
    if (Room > Length)
      giveSample(Sample, Room - Length);
    SampleOf[I] = Sample;
    ++Offsets[toSize(Sample) + 1];
  }
  std::partial_sum(Offsets.begin(), Offsets.end(), Offsets.begin());
  // `NextWith` is free again: where the next example of a sample goes.
  std::copy_n(Offsets.begin(), Sorted.size(), NextWith.begin());
  for (size_t I = 0; I < Sorted.size(); ++I)
    Members[toSize(NextWith[toSize(SampleOf[I])]++)] = Sorted[I];
}

//===- IslandCommunicator.cpp - Islands, and what joins them --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/IslandCommunicator.h"
#include "support/Error.h"

#include <algorithm>
#include <sys/mman.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

IslandCommunicator::IslandCommunicator(
    Communicator &Control, const Topology &Islands,
    std::unique_ptr<IslandLibrary> TheLibrary, bool Uniform)
    : Communicator(Control.rank(), Control.getTopology()), Control(Control),
      Islands(Islands), Library(std::move(TheLibrary)), Uniform(Uniform),
      Name(Library->getName()) {
  if (Library->getScratchBytes() < 8 * int64_t(sizeof(float)) * size())
    fail(Name, " has ", Library->getScratchBytes(), " bytes of scratch for ",
         size(), " ranks, which is too little");
  if (!isAlone())
    Name += std::string(" + ") + Control.getBackend();
}

IslandCommunicator::~IslandCommunicator() {
  if (Staging)
    munmap(Staging, static_cast<size_t>(StagingBytes));
}

void IslandCommunicator::interrupt() {
  Communicator::interrupt();
  Control.interrupt();
}

/// Grows to what the largest bucket needs, in the first step.
char *IslandCommunicator::getStaging(int64_t Bytes) {
  if (Bytes <= StagingBytes)
    return Staging;
  if (Staging)
    munmap(Staging, static_cast<size_t>(StagingBytes));
  Staging = nullptr;
  void *Place =
      mmap(nullptr, static_cast<size_t>(Bytes), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (Place == MAP_FAILED)
    fail("cannot allocate ", Bytes, " bytes for messages between islands");
  Staging = static_cast<char *>(Place);
  StagingBytes = Bytes;
  return Staging;
}

/// The arguments of an all-gather, and what other islands have, or have sent.
struct IslandCommunicator::Gathering {
  const char *Shard;
  Type ShardType;
  char *Full;
  Type FullType, Wire;
  const int64_t *Bounds;
  const char *Staged;

  int64_t count(int Slice) const { return Bounds[Slice + 1] - Bounds[Slice]; }
};

void IslandCommunicator::allGather(const void *Shard, Type ShardType,
                                   void *Full, Type FullType, Type Wire,
                                   const int64_t *Bounds) {
  Gathering G{static_cast<const char *>(Shard),
              ShardType,
              static_cast<char *>(Full),
              FullType,
              Wire,
              Bounds,
              nullptr};
  if (isAlone()) {
    spread(G, /*Own=*/true);
    return finish();
  }
  int64_t Width = getBytes(Wire);
  char *Staged = getStaging(Bounds[size()] * Width);
  char *Place = Staged + Bounds[Rank] * Width;
  int64_t Chunk = ShardType == Wire ? std::max<int64_t>(G.count(Rank), 1)
                                    : Library->getScratchBytes() / Width;
  for (int64_t Begin = 0; Begin < G.count(Rank); Begin += Chunk) {
    int64_t Count = std::min(Chunk, G.count(Rank) - Begin);
    const void *From = G.Shard + Begin * getBytes(ShardType);
    if (ShardType != Wire) {
      Library->convert(From, ShardType, Wire, Library->getScratch(), Wire,
                       Count);
      From = Library->getScratch();
    }
    Library->copyOut(Place + Begin * Width, From, Count * Width);
  }
  G.Staged = Staged;
  // Both at once: the device does the one while this thread does the other.
  spread(G, /*Own=*/true);
  Control.allGather(Place, Wire, Staged, Wire, Wire, Bounds);
  spread(G, /*Own=*/false);
  finish();
}

/// Queues the broadcasts of the island's own slices, or of all others.
void IslandCommunicator::spread(const Gathering &G, bool Own) {
  Slices.clear();
  for (int Slice = 0; Slice < size(); ++Slice) {
    if (isOwn(Slice) == Own && G.count(Slice) > 0)
      Slices.push_back(Slice);
    if (isOwn(Slice) == Own && getRoot(Slice) == Library->rank())
      LibraryBytes += G.count(Slice) * getBytes(G.Wire);
  }
  if (!Uniform || G.FullType != G.Wire)
    return spreadInRounds(G);
  Pieces.clear();
  int64_t Width = getBytes(G.Wire);
  for (int Slice : Slices) {
    char *Target = G.Full + G.Bounds[Slice] * Width;
    int Root = getRoot(Slice);
    if (Slice == Rank && (G.Shard != Target || G.ShardType != G.Wire))
      Library->convert(G.Shard, G.ShardType, G.Wire, Target, G.Wire,
                       G.count(Slice));
    else if (Root == Library->rank() && !Own)
      Library->copyIn(Target, G.Staged + G.Bounds[Slice] * Width,
                      G.count(Slice) * Width);
    Pieces.push_back({Target, Target, G.count(Slice), Root});
  }
  Library->broadcast(Pieces, G.Wire);
}

/// The same through the scratch, for memory of another type than the wire's.
void IslandCommunicator::spreadInRounds(const Gathering &G) {
  if (Slices.empty())
    return;
  int64_t Width = getBytes(G.Wire), Longest = 0;
  for (int Slice : Slices)
    Longest = std::max(Longest, G.count(Slice));
  int64_t Chunk =
      Library->getScratchBytes() / static_cast<int64_t>(Slices.size()) / Width;
  for (int64_t Begin = 0; Begin < Longest; Begin += Chunk) {
    Pieces.clear();
    Results.clear();
    char *Slot = Library->getScratch();
    for (int Slice : Slices) {
      int64_t Count = std::min(Chunk, G.count(Slice) - Begin);
      if (Count <= 0)
        continue;
      int Root = getRoot(Slice);
      if (Slice == Rank)
        Library->convert(G.Shard + Begin * getBytes(G.ShardType), G.ShardType,
                         G.Wire, Slot, G.Wire, Count);
      else if (Root == Library->rank())
        Library->copyIn(Slot, G.Staged + (G.Bounds[Slice] + Begin) * Width,
                        Count * Width);
      Pieces.push_back({Slot, Slot, Count, Root});
      Results.push_back(G.Full +
                        (G.Bounds[Slice] + Begin) * getBytes(G.FullType));
      Slot += Count * Width;
    }
    Library->broadcast(Pieces, G.Wire);
    for (size_t I = 0; I < Pieces.size(); ++I)
      Library->convert(Pieces[I].Target, G.Wire, G.Wire, Results[I], G.FullType,
                       Pieces[I].Count);
  }
}

void IslandCommunicator::reduceScatter(const float *Full, float *Shard,
                                       bool Accumulate, Type Wire,
                                       const int64_t *Bounds) {
  auto Count = [&](int Slice) { return Bounds[Slice + 1] - Bounds[Slice]; };
  int64_t Longest = 0;
  for (int Slice = 0; Slice < size(); ++Slice) {
    Longest = std::max(Longest, Count(Slice));
    if (getRoot(Slice) != Library->rank())
      LibraryBytes += Count(Slice) * 4;
  }
  bool Directly = isAlone() && Wire == Type::F32;
  // What is added goes through the own slice of `Full`, which nobody needs any
  // more; nothing has to be copied then.
  float *Sum = Accumulate ? const_cast<float *>(Full) + Bounds[Rank] : Shard;
  auto *Staged = reinterpret_cast<float *>(
      isAlone() ? nullptr : getStaging(Bounds[size()] * 4));
  int64_t Chunk = Directly ? std::max<int64_t>(Longest, 1)
                           : Library->getScratchBytes() / 4 / 2 / size();
  for (int64_t Begin = 0; Begin < Longest; Begin += Chunk) {
    Pieces.clear();
    Slices.clear();
    auto *Slot = reinterpret_cast<float *>(Library->getScratch());
    for (int Slice = 0; Slice < size(); ++Slice) {
      int64_t Part = std::min(Chunk, Count(Slice) - Begin);
      if (Part <= 0)
        continue;
      const float *Source = Full + Bounds[Slice] + Begin;
      float *Target = Directly ? Sum : Slot + Part;
      if (Wire != Type::F32) {
        Library->convert(Source, Type::F32, Wire, Slot, Type::F32, Part);
        Source = Slot;
      }
      Pieces.push_back({Source, Target, Part, getRoot(Slice)});
      Slices.push_back(Slice);
      Slot += 2 * Part;
    }
    Library->reduce(Pieces);
    for (size_t I = 0; I < Pieces.size() && !Directly; ++I) {
      auto *Part = static_cast<const float *>(Pieces[I].Target);
      if (Pieces[I].Root != Library->rank())
        continue;
      if (!isAlone())
        Library->copyOut(Staged + Bounds[Slices[I]] + Begin, Part,
                         Pieces[I].Count * 4);
      else if (Accumulate)
        Library->add(Shard + Begin, Part, Pieces[I].Count);
      else
        Library->convert(Part, Type::F32, Type::F32, Shard + Begin, Type::F32,
                         Pieces[I].Count);
    }
  }
  if (Directly && Accumulate)
    Library->add(Shard, Sum, Count(Rank));
  if (!isAlone()) {
    float *Own = Staged + Bounds[Rank];
    Control.reduceScatter(Staged, Own, /*Accumulate=*/false, Wire, Bounds);
    Library->copyIn(Sum, Own, Count(Rank) * 4);
    if (Accumulate)
      Library->add(Shard, Sum, Count(Rank));
  }
  finish();
}

void IslandCommunicator::allReduce(const float *Source, float *Result,
                                   Type Wire, const int64_t *Bounds) {
  if (!isAlone() || Wire != Type::F32)
    return Communicator::allReduce(Source, Result, Wire, Bounds);
  LibraryBytes += Bounds[size()] * 4;
  Library->allReduce(Source, Result, Bounds[size()]);
  finish();
}

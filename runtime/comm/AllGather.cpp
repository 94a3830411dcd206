//===- AllGather.cpp - All-gather by messages -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/AllGather.h"

#include <algorithm>

using namespace poplar::runtime::comm;

AllGather::AllGather(Transport &Messages, const Topology &Topo)
    : Messages(Messages) {
  // The own slice first: others wait for it.
  for (int I = 0; I < Topo.size(); ++I) {
    Stream S = {};
    S.Slice = (Messages.rank() + I) % Topo.size();
    if (!Topo.takesPart(Messages.rank(), S.Slice))
      continue;
    S.Parent = getParent(Topo, Messages.rank(), S.Slice);
    S.Children = getChildren(Topo, Messages.rank(), S.Slice);
    for (Window &W : S.Windows)
      W.Sends.assign(S.Children.size(), Transport::None);
    Streams.push_back(std::move(S));
  }
}

int AllGather::countSlots(const Topology &Topo) { return Depth * Topo.size(); }

int AllGather::countRequests(const Topology &Topo) {
  // One receive per slice. Its sends: the own slice to at most everyone, and
  // those of others, as a leader, to less than one other rank on average.
  return 3 * Depth * Topo.size();
}

void AllGather::start(const Arguments &Args) {
  A = Args;
  for (Stream &S : Streams) {
    int64_t Count = A.Bounds[S.Slice + 1] - A.Bounds[S.Slice];
    S.NumChunks = (Count + A.ChunkElements - 1) / A.ChunkElements;
    S.Posted = S.Arrived = S.Finished = 0;
  }
}

bool AllGather::isDone() const {
  return std::all_of(Streams.begin(), Streams.end(),
                     [](const Stream &S) { return S.Finished == S.NumChunks; });
}

int64_t AllGather::getElements(const Stream &S, int64_t Chunk) const {
  int64_t Count = A.Bounds[S.Slice + 1] - A.Bounds[S.Slice];
  return std::min(A.ChunkElements, Count - Chunk * A.ChunkElements);
}

char *AllGather::getSlot(const Stream &S, int64_t Chunk) const {
  return A.Slots + (S.Slice * Depth + Chunk % Depth) * A.SlotBytes;
}

char *AllGather::getDestination(const Stream &S, int64_t Chunk) const {
  return A.Full +
         (A.Bounds[S.Slice] + Chunk * A.ChunkElements) * getBytes(A.FullType);
}

/// A chunk of the own slice: into the wire type, and from there into `Full`,
/// where it must not differ from what others receive.
void AllGather::prepare(Stream &S, int64_t Chunk) {
  int64_t Elements = getElements(S, Chunk);
  const char *Source =
      A.Shard + Chunk * A.ChunkElements * getBytes(A.ShardType);
  Window &W = S.Windows[Chunk % Depth];
  W.Data = Source;
  if (A.ShardType != A.Wire) {
    convert(Source, A.ShardType, getSlot(S, Chunk), A.Wire, Elements);
    W.Data = getSlot(S, Chunk);
  }
  convert(W.Data, A.Wire, getDestination(S, Chunk), A.FullType, Elements);
}

void AllGather::post(Stream &S, int64_t Chunk) {
  Window &W = S.Windows[Chunk % Depth];
  char *Target =
      A.FullType == A.Wire ? getDestination(S, Chunk) : getSlot(S, Chunk);
  W.Data = Target;
  W.Receive = Messages.receive(
      S.Parent, S.Slice, Target,
      static_cast<size_t>(getBytes(A.Wire, getElements(S, Chunk))));
}

void AllGather::forward(Stream &S, int64_t Chunk) {
  Window &W = S.Windows[Chunk % Depth];
  size_t Bytes = static_cast<size_t>(getBytes(A.Wire, getElements(S, Chunk)));
  for (size_t I = 0; I < S.Children.size(); ++I)
    W.Sends[I] = Messages.send(S.Children[I], S.Slice, W.Data, Bytes);
}

bool AllGather::advance(Stream &S) {
  bool Moved = false;
  // Windows free up in any order of their sends, but are reused in order.
  for (; S.Finished < S.Arrived; ++S.Finished, Moved = true) {
    Window &W = S.Windows[S.Finished % Depth];
    for (Transport::Request &R : W.Sends)
      if (R != Transport::None && Messages.test(R))
        R = Transport::None;
    if (std::any_of(W.Sends.begin(), W.Sends.end(),
                    [](auto R) { return R != Transport::None; }))
      break;
  }
  for (; S.Posted < std::min(S.NumChunks, S.Finished + Depth);
       ++S.Posted, Moved = true) {
    if (S.Parent >= 0)
      post(S, S.Posted);
    else
      prepare(S, S.Posted);
  }
  // In order: a child receives the chunks in the order in which they are sent.
  for (; S.Arrived < S.Posted; ++S.Arrived, Moved = true) {
    if (S.Parent >= 0) {
      Window &W = S.Windows[S.Arrived % Depth];
      if (!Messages.test(W.Receive))
        break;
      if (A.FullType != A.Wire)
        convert(W.Data, A.Wire, getDestination(S, S.Arrived), A.FullType,
                getElements(S, S.Arrived));
    }
    forward(S, S.Arrived);
  }
  return Moved;
}

bool AllGather::advance() {
  bool Moved = false;
  for (Stream &S : Streams)
    Moved |= S.Finished < S.NumChunks && advance(S);
  return Moved;
}

//===- ReduceScatter.cpp - Reduce-scatter by messages ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/ReduceScatter.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime::comm;

ReduceScatter::ReduceScatter(Transport &Messages, const Topology &Topo)
    : Messages(Messages), NumNodes(Topo.numNodes()) {
  int Rank = Messages.rank(), Node = Topo.getNode(Rank), NextSlot = 0;
  for (int I = 1; I <= Topo.size(); ++I) {
    Stream S = {};
    S.Slice = (Rank + I) % Topo.size();
    if (!Topo.takesPart(Rank, S.Slice))
      continue;
    auto AddTerm = [&](int Peer, bool EndsNode) {
      Term T = {};
      T.Peer = Peer == Rank ? -1 : Peer;
      T.Crosses = Topo.getNode(Peer) != Node;
      T.EndsNode = EndsNode;
      T.FirstSlot = NextSlot;
      NextSlot += T.Peer >= 0 ? Depth : 0;
      S.Terms.push_back(T);
    };
    auto AddMembers = [&] {
      // What the library added up is there as the leader's own.
      const std::vector<int> &Members = Topo.hasLibrary(Node)
                                            ? std::vector<int>{Rank}
                                            : Topo.getMembers(Node);
      for (int Member : Members)
        AddTerm(Member, Member == Members.back());
    };
    if (S.Slice == Rank) {
      for (int Other = 0; Other < NumNodes; ++Other) {
        if (Other == Node)
          AddMembers();
        else
          AddTerm(Topo.getLeader(Other, S.Slice), /*EndsNode=*/true);
      }
    } else if (Topo.getLeader(Node, S.Slice) == Rank) {
      AddMembers();
    } else {
      AddTerm(Rank, /*EndsNode=*/true);
    }
    S.Out.Peer = getParent(Topo, Rank, S.Slice);
    S.Out.Crosses = S.Out.Peer >= 0 && Topo.getNode(S.Out.Peer) != Node;
    S.OnlyOwn = S.Out.Peer >= 0 && S.Terms.size() == 1;
    S.Out.FirstSlot = NextSlot;
    NextSlot += S.Out.Peer >= 0 ? Depth : 0;
    S.SumSlot = NextSlot;
    S.NodeSumSlot = NextSlot + 1;
    NextSlot += S.OnlyOwn ? 0 : S.Out.Peer >= 0 ? 1 : 2;
    Streams.push_back(std::move(S));
  }
}

int ReduceScatter::countSlots(const Topology &Topo) {
  std::vector<int> Slots(Topo.size());
  for (int Slice = 0; Slice < Topo.size(); ++Slice) {
    for (int Node = 0; Node < Topo.numNodes(); ++Node) {
      const std::vector<int> &Members = Topo.getMembers(Node);
      int Others =
          Topo.hasLibrary(Node) ? 0 : static_cast<int>(Members.size()) - 1;
      int Leader = Topo.getLeader(Node, Slice);
      for (int Rank : Members) {
        if (!Topo.takesPart(Rank, Slice))
          continue;
        if (Rank == Slice)
          Slots[Rank] += Depth * (Others + Topo.numNodes() - 1) + 2;
        else
          Slots[Rank] += Depth + (Rank == Leader ? Depth * Others + 1 : 0);
      }
    }
  }
  return *std::max_element(Slots.begin(), Slots.end());
}

int64_t ReduceScatter::countResidual(const Topology &Topo, int Rank,
                                     const int64_t *Bounds) {
  int64_t Count = 0;
  for (int Slice = 0; Slice < Topo.size(); ++Slice)
    if (Topo.crosses(Rank, Slice))
      Count += Bounds[Slice + 1] - Bounds[Slice];
  return Count;
}

void ReduceScatter::start(const Arguments &Args) {
  A = Args;
  float *Residual = A.Residual;
  for (int Slice = 0; A.Feedback && Slice < Messages.size(); ++Slice)
    for (Stream &S : Streams)
      if (S.Slice == Slice && S.Out.Crosses) {
        S.Residual = Residual;
        Residual += A.Bounds[Slice + 1] - A.Bounds[Slice];
      }
  for (Stream &S : Streams) {
    int64_t Count = A.Bounds[S.Slice + 1] - A.Bounds[S.Slice];
    S.NumChunks = (Count + A.ChunkElements - 1) / A.ChunkElements;
    S.Current = S.Out.Sent = S.Out.Finished = 0;
    S.NextTerm = 0;
    for (Term &T : S.Terms)
      T.Posted = 0;
  }
}

bool ReduceScatter::isDone() const {
  return std::all_of(Streams.begin(), Streams.end(), [](const Stream &S) {
    return S.Current == S.NumChunks && S.Out.Finished == S.Out.Sent;
  });
}

int64_t ReduceScatter::getElements(const Stream &S, int64_t Chunk) const {
  int64_t Count = A.Bounds[S.Slice + 1] - A.Bounds[S.Slice];
  return std::min(A.ChunkElements, Count - Chunk * A.ChunkElements);
}

const float *ReduceScatter::getOwn(const Stream &S, int64_t Chunk) const {
  return A.Full + A.Bounds[S.Slice] + Chunk * A.ChunkElements;
}

void ReduceScatter::postReceives(Stream &S) {
  for (Term &T : S.Terms) {
    if (T.Peer < 0)
      continue;
    for (; T.Posted < std::min(S.NumChunks, S.Current + Depth); ++T.Posted) {
      int Window = static_cast<int>(T.Posted % Depth);
      T.Receives[Window] =
          Messages.receive(T.Peer, S.Slice, getSlot(T.FirstSlot + Window),
                           static_cast<size_t>(getBytes(
                               getWire(T.Crosses), getElements(S, T.Posted))));
    }
  }
}

/// Adds the next term of the current chunk, if it is here.
bool ReduceScatter::addTerm(Stream &S) {
  Term &T = S.Terms[S.NextTerm];
  int Window = static_cast<int>(S.Current % Depth);
  if (T.Peer >= 0 && !Messages.test(T.Receives[Window]))
    return false;
  bool BeginsNode = S.NextTerm == 0 || S.Terms[S.NextTerm - 1].EndsNode;
  bool AloneInNode = BeginsNode && T.EndsNode;
  auto *Sum = reinterpret_cast<float *>(getSlot(S.SumSlot));
  auto *NodeSum = reinterpret_cast<float *>(getSlot(S.NodeSumSlot));
  // The terms of a node are added up where they are the first of the sum, else
  // apart; a term that is alone in its node is added to the sum.
  bool InSum =
      AloneInNode ||
      std::none_of(S.Terms.begin(),
                   S.Terms.begin() + static_cast<std::ptrdiff_t>(S.NextTerm),
                   [](const Term &Before) { return Before.EndsNode; });
  float *Target = InSum ? Sum : NodeSum;
  bool Overwrites = S.NextTerm == 0 || (BeginsNode && !InSum);
  int64_t Elements = getElements(S, S.Current);
  Type Wire = getWire(T.Crosses);
  if (T.Peer < 0)
    addRounded(Target, getOwn(S, S.Current), Wire, Elements, Overwrites);
  else if (Overwrites)
    convert(getSlot(T.FirstSlot + Window), Wire, Target, Type::F32, Elements);
  else
    accumulate(Target, getSlot(T.FirstSlot + Window), Wire, Elements);
  // The sum of another node arrives rounded, so that of the own one is, too,
  // but for feedback.
  if (T.EndsNode && !AloneInNode && NumNodes > 1 && S.Out.Peer < 0) {
    roundTo(Target, getWire(/*Crosses=*/false), Elements);
    if (!InSum)
      accumulate(Sum, NodeSum, Type::F32, Elements);
  }
  ++S.NextTerm;
  return true;
}

/// Whether a window of `Out` is free.
bool ReduceScatter::retireSends(Outgoing &Out) {
  while (Out.Finished < Out.Sent &&
         Messages.test(Out.Sends[Out.Finished % Depth]))
    ++Out.Finished;
  return Out.Sent - Out.Finished < Depth;
}

/// What the current chunk is sent as, in `Slot` unless it is that already.
const void *ReduceScatter::encode(Stream &S, char *Slot) {
  int64_t Elements = getElements(S, S.Current);
  const float *Sum = S.OnlyOwn
                         ? getOwn(S, S.Current)
                         : reinterpret_cast<const float *>(getSlot(S.SumSlot));
  Type Wire = getWire(S.Out.Crosses);
  if (A.Feedback && S.Out.Crosses) {
    convertWithFeedback(Sum, S.Residual + S.Current * A.ChunkElements, Slot,
                        Wire, Elements);
    return Slot;
  }
  if (S.OnlyOwn && Wire == Type::F32)
    return Sum;
  convert(Sum, Type::F32, Slot, Wire, Elements);
  return Slot;
}

/// Keeps or sends the sum of the current chunk, if there is a window free.
bool ReduceScatter::finishChunk(Stream &S) {
  int64_t Elements = getElements(S, S.Current);
  Outgoing &Out = S.Out;
  if (Out.Peer < 0) {
    auto *Sum = reinterpret_cast<const float *>(getSlot(S.SumSlot));
    float *Kept = A.Shard + S.Current * A.ChunkElements;
    if (A.Accumulate)
      accumulate(Kept, Sum, Type::F32, Elements);
    else
      std::memcpy(Kept, Sum, static_cast<size_t>(Elements) * sizeof(float));
  } else {
    if (!retireSends(Out))
      return false;
    int Window = static_cast<int>(Out.Sent % Depth);
    const void *Data = encode(S, getSlot(Out.FirstSlot + Window));
    Out.Sends[Window] = Messages.send(
        Out.Peer, S.Slice, Data,
        static_cast<size_t>(getBytes(getWire(Out.Crosses), Elements)));
    ++Out.Sent;
  }
  ++S.Current;
  S.NextTerm = 0;
  return true;
}

bool ReduceScatter::advance(Stream &S) {
  bool Moved = false;
  while (S.Current < S.NumChunks) {
    postReceives(S);
    while (!S.OnlyOwn && S.NextTerm < S.Terms.size()) {
      if (!addTerm(S))
        return Moved;
      Moved = true;
    }
    if (!finishChunk(S))
      return Moved;
    Moved = true;
  }
  int64_t Before = S.Out.Finished;
  retireSends(S.Out);
  return Moved || S.Out.Finished != Before;
}

bool ReduceScatter::advance() {
  bool Moved = false;
  for (Stream &S : Streams)
    Moved |= advance(S);
  return Moved;
}

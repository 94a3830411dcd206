//===- ReduceScatter.h - Reduce-scatter by messages -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state machine that never waits: its owner calls advance() until isDone().
//
// With `Feedback`, only sums that cross between nodes are in the wire type. The
// sender keeps their rounding error and adds it to its next sum of the same
// elements.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_REDUCESCATTER_H
#define POPLAR_RUNTIME_COMM_REDUCESCATTER_H

#include "comm/Transport.h"
#include "comm/Trees.h"
#include "comm/Wire.h"

#include <cstdint>

namespace poplar::runtime::comm {

class ReduceScatter {
public:
  ReduceScatter(Transport &Messages, const Topology &Topo);

  /// What any rank of the group needs: memory for chunks, each of which has at
  /// most one message at a time.
  static int countSlots(const Topology &Topo);

  struct Arguments {
    const float *Full;
    float *Shard;
    bool Accumulate;
    Type Wire;
    const int64_t *Bounds;
    int64_t ChunkElements;
    char *Slots;
    int64_t SlotBytes;
    bool Feedback = false;
    /// Residuals of the slices that this rank sends to other nodes, one after
    /// the other: countResidual() elements.
    float *Residual = nullptr;
  };
  /// Counts the residuals of rank `Rank`.
  static int64_t countResidual(const Topology &Topo, int Rank,
                               const int64_t *Bounds);
  void start(const Arguments &A);
  /// Does what can be done now; whether that was anything.
  bool advance();
  bool isDone() const;

private:
  /// Chunks of a slice on their way to the next rank.
  struct Outgoing {
    int Peer, FirstSlot;
    bool Crosses; // to another node
    Transport::Request Sends[Depth];
    int64_t Sent, Finished;
  };
  /// A rank's contribution to a sum; its own if there is no peer.
  struct Term {
    int Peer, FirstSlot;
    bool Crosses; // from another node
    /// The sum of the terms since the last one with this mark is rounded, and
    /// added to the whole: they are all of one node.
    bool EndsNode;
    Transport::Request Receives[Depth];
    int64_t Posted;
  };
  /// What this rank does about a slice: add up the terms, then keep the sum or
  /// send it. Where there is but the own term, it is sent as it is.
  struct Stream {
    int Slice, SumSlot, NodeSumSlot;
    bool OnlyOwn;
    std::vector<Term> Terms;
    Outgoing Out; // Peer -1: this rank owns the slice
    int64_t NumChunks, Current;
    size_t NextTerm;
    float *Residual;
  };

  char *getSlot(int Slot) const { return A.Slots + Slot * A.SlotBytes; }
  int64_t getElements(const Stream &S, int64_t Chunk) const;
  const float *getOwn(const Stream &S, int64_t Chunk) const;
  Type getWire(bool Crosses) const {
    return A.Feedback && !Crosses ? Type::F32 : A.Wire;
  }
  const void *encode(Stream &S, char *Slot);
  bool advance(Stream &S);
  void postReceives(Stream &S);
  bool addTerm(Stream &S);
  bool finishChunk(Stream &S);
  bool retireSends(Outgoing &Out);

  Transport &Messages;
  Arguments A = {};
  int NumNodes;
  std::vector<Stream> Streams;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_REDUCESCATTER_H

//===- AllGather.h - All-gather by messages ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state machine that never waits: its owner calls advance() until isDone().
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_ALLGATHER_H
#define POPLAR_RUNTIME_COMM_ALLGATHER_H

#include "comm/Transport.h"
#include "comm/Trees.h"
#include "comm/Wire.h"

#include <cstdint>

namespace poplar::runtime::comm {

class AllGather {
public:
  AllGather(Transport &Messages, const Topology &Topo);

  /// What any rank of the group needs: memory for chunks, messages at a time.
  static int countSlots(const Topology &Topo);
  static int countRequests(const Topology &Topo);

  struct Arguments {
    const char *Shard;
    Type ShardType;
    char *Full;
    Type FullType, Wire;
    const int64_t *Bounds;
    int64_t ChunkElements;
    char *Slots;
    int64_t SlotBytes;
  };
  void start(const Arguments &A);
  /// Does what can be done now; whether that was anything.
  bool advance();
  bool isDone() const;

private:
  struct Window {
    const char *Data = nullptr; // the chunk in the wire type
    Transport::Request Receive = Transport::None;
    std::vector<Transport::Request> Sends; // one per child
    bool Busy = false;
  };
  /// One slice, on its way through this rank. Chunks are numbered.
  struct Stream {
    int Slice, Parent;
    std::vector<int> Children;
    Window Windows[Depth];
    /// Chunks [0, Finished) are done with, [0, Arrived) are here, [0, Posted)
    /// have a window.
    int64_t NumChunks, Posted, Arrived, Finished;
  };

  int64_t getElements(const Stream &S, int64_t Chunk) const;
  char *getSlot(const Stream &S, int64_t Chunk) const;
  char *getDestination(const Stream &S, int64_t Chunk) const;
  bool advance(Stream &S);
  void prepare(Stream &S, int64_t Chunk);
  void post(Stream &S, int64_t Chunk);
  void forward(Stream &S, int64_t Chunk);

  Transport &Messages;
  Arguments A = {};
  std::vector<Stream> Streams;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_ALLGATHER_H

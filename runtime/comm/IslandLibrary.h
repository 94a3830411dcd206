//===- IslandLibrary.h - Collectives of the memory of devices ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks whose devices reach each other's memory by a library of their own, such
// as NCCL, are an island. What is here is queued on a stream of the library's:
// calls return before it is done, and what is queued later sees its results.
// All ranks of the island make the same calls in the same order, but for
// convert, add, copyIn and copyOut, which concern one rank.
//
// Addresses are the device's unless it says otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_ISLANDLIBRARY_H
#define POPLAR_RUNTIME_COMM_ISLANDLIBRARY_H

#include "comm/Wire.h"

#include <functional>
#include <string>
#include <vector>

namespace poplar::runtime::comm {

class IslandLibrary {
public:
  /// A piece of memory that one rank of the island, the root, has or gets.
  struct Piece {
    const void *Source;
    void *Target;
    int64_t Count;
    int Root;
  };

  /// What this rank of the island gives to one of its ranks, and gets from
  /// another; nothing where there are no bytes.
  struct Transfer {
    const void *Source;
    void *Target;
    int64_t SourceBytes, TargetBytes;
    int To, From;
  };

  virtual ~IslandLibrary() = default;
  /// "NCCL 2.28.9".
  virtual std::string getName() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Memory to pass pieces through, of getScratchBytes() bytes.
  virtual char *getScratch() const = 0;
  virtual int64_t getScratchBytes() const = 0;

  /// What is queued from now on waits for a Device::recordPoint.
  virtual void waitFor(void *Point) = 0;
  /// See DeviceOrder.
  virtual void *recordPoint(int Number) = 0;
  virtual bool hasReached(void *Point) = 0;

  /// Each piece goes from its root's source to all targets, its root's, too.
  virtual void broadcast(const std::vector<Piece> &Pieces, Type T) = 0;
  /// Each piece's sum over all sources, in f32, goes to its root's target;
  /// others' targets are not used. A target may be its source.
  virtual void reduce(const std::vector<Piece> &Pieces) = 0;
  /// The sum in f32, the same bits on each rank. `Result` may be `Source`.
  virtual void allReduce(const float *Source, float *Result, int64_t Count) = 0;

  /// Transfers of all ranks of the island that belong together: each gets what
  /// another gives it, in the order in which it gives it.
  virtual void exchange(const std::vector<Transfer> &Transfers) = 0;

  /// Rounds to `Wire`, and from there to `To`.
  virtual void convert(const void *Source, Type From, Type Wire, void *Target,
                       Type To, int64_t Count) = 0;
  /// Sum[i] += Source[i].
  virtual void add(float *Sum, const float *Source, int64_t Count) = 0;
  /// From the host's memory, which is free again on return, and to it; copyOut
  /// waits as finish() does.
  virtual void copyIn(void *To, const void *From, int64_t Bytes) = 0;
  virtual void copyOut(void *To, const void *From, int64_t Bytes) = 0;

  /// What to do while a call waits for other ranks; returns whether there was
  /// anything to do.
  virtual void setBackground(std::function<bool()> Function) = 0;
  /// Returns when everything queued is done. Throws an Error if the library
  /// reports one, or if the communicator is interrupted, and aborts it then.
  virtual void finish() = 0;
  /// Orderly end; nothing is under way.
  virtual void close() = 0;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_ISLANDLIBRARY_H

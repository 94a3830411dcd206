//===- Collectives.h - What a rank does with the others ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The group of a job, as the rest of the runtime sees it. Every function but
// messages is called by all ranks, or all that hold the bucket it is about, in
// the same order. A rank that is alone has none.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COLLECTIVES_H
#define POPLAR_RUNTIME_COLLECTIVES_H

#include "Poplar/Runtime/ABI.h"
#include "comm/Agreement.h"
#include "comm/IslandLibrary.h"

#include <chrono>
#include <string>
#include <vector>

namespace poplar::runtime {

class Device;
class State;

class Collectives {
public:
  virtual ~Collectives() = default;

  virtual int rank() const = 0;

  /// Says where this rank's shards are, and in whose memory, before the first
  /// collective of them.
  virtual void attach(const State &S, Device &D) = 0;

  /// poplar_rt_start and poplar_rt_wait, after which the device's work may use
  /// what was collected, and the host may not before it waits for the device.
  virtual void start(const PoplarCollective &What, void *Buffer) = 0;
  virtual void wait(const PoplarCollective &What) = 0;

  /// Messages between this rank and `Peer`, of a kind: a PoplarMessageKind, and
  /// twice the chunk that receives it; those of a
  /// kind arrive in the order in which they were sent. Return at once with the
  /// message's number; the memory belongs to it until it was waited for.
  virtual int send(int Peer, int Kind, const void *Data, int64_t Bytes) = 0;
  virtual int receive(int Peer, int Kind, void *Data, int64_t Bytes) = 0;
  virtual void waitMessage(int Message) = 0;

  /// Whether ranks that share units exchange by a library of their devices,
  /// without the host: the device orders the exchange after earlier work, and
  /// later work after waitExchange(), and the host goes on. Otherwise they
  /// exchange by messages.
  virtual bool hasExchanges() const = 0;
  /// Starts an exchange, with positions among these ranks. Returns its number.
  virtual int64_t startExchange(
      const std::vector<comm::IslandLibrary::Transfer> &Transfers) = 0;
  virtual void waitExchange(int64_t Number) = 0;

  /// Sums and maxima over all ranks, in place. Sums of f64 are in the order of
  /// the ranks, and the same bits on each.
  virtual void sum(int64_t *Values, int64_t Count) = 0;
  virtual void sum(double *Values, int64_t Count) = 0;
  virtual void max(int64_t *Values, int64_t Count) = 0;

  /// Collects shards on rank 0: rank r has [Bounds[r], Bounds[r + 1]) of
  /// `Full`, which only rank 0 has.
  virtual void gather(const float *Shard, float *Full,
                      const int64_t *Bounds) = 0;

  /// Names the phase that begins, by a literal, and the expected seconds
  /// between two signs of progress. A rank that takes much longer ends the job.
  virtual void setPhase(const char *Name, double Seconds) = 0;
  virtual void progress() = 0;
  /// For --trace: a turn of a pipeline stage, begun at `Begin`, is done.
  virtual void recordTurn(bool IsBackward, int64_t MicroBatch,
                          std::chrono::steady_clock::time_point Begin) = 0;
  /// For --trace: a step of training, begun at `Begin`, is done.
  virtual void recordStep(int64_t Step,
                          std::chrono::steady_clock::time_point Begin) = 0;
  /// Seconds since the job began in which this rank waited for others, and in
  /// which something of it was under way.
  struct Times {
    double Waiting = 0, Communicating = 0;
  };
  virtual Times getTimes() const { return {}; }
  /// Ends the job because of an error of this rank.
  [[noreturn]] virtual void fail(const std::string &Message) = 0;

  /// Ends the job, on all ranks, if their claims are not the same.
  virtual void agree(const std::vector<comm::Claim> &Claims) = 0;
  /// Everyone gets rank 0's text.
  virtual std::string broadcast(const std::string &Text) = 0;
  virtual void barrier() = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_COLLECTIVES_H

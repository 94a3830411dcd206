//===- Transport.h - Messages between ranks ---------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the collectives need of a communication library: nonblocking messages
// between two ranks. A transport is used by one thread at a time. Messages with
// the same sender, receiver and tag arrive in the order in which they were sent
// and match receives in the order in which these were posted.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_TRANSPORT_H
#define POPLAR_RUNTIME_COMM_TRANSPORT_H

#include "comm/HeartbeatSockets.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime::comm {

using Clock = std::chrono::steady_clock;

inline double toSeconds(Clock::duration D) {
  return std::chrono::duration<double>(D).count();
}

/// Returns after `Most`, or as soon as one of two descriptors can be read.
/// Negative ones are none.
void restOn(Clock::duration Most, int First, int Second);

class Transport {
public:
  /// A message under way. `None` counts as complete.
  using Request = int;
  static constexpr Request None = -1;

  virtual ~Transport() = default;
  virtual const char *getName() const = 0;
  /// The library's name and version.
  virtual const char *getLibrary() const { return getName(); }
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For each rank, a number that names its node.
  virtual std::vector<int> getNodes() const = 0;
  /// Once; the sockets belong to the caller.
  virtual HeartbeatSockets takeSockets() { return {}; }

  /// Room for this many messages under way: none is allocated later. Called
  /// before the first message, and again only when none is under way.
  void reserve(int Requests) {
    SentBytes.resize(static_cast<size_t>(size()));
    doReserve(Requests);
  }
  /// The memory belongs to the message until `test` has returned true.
  Request send(int Peer, int Tag, const void *Data, size_t Bytes) {
    SentBytes[static_cast<size_t>(Peer)] += static_cast<int64_t>(Bytes);
    return doSend(Peer, Tag, Data, Bytes);
  }
  virtual Request receive(int Peer, int Tag, void *Data, size_t Bytes) = 0;
  /// Whether the message is complete; if so, the request is no longer valid.
  virtual bool test(Request R) = 0;
  /// When something known will happen next: no use in polling earlier for it.
  virtual Clock::time_point getNextEvent() const {
    return Clock::time_point::max();
  }
  /// A descriptor that can be read once a message may have moved, if arm() has
  /// returned true since: no message had moved since the last test. Negative if
  /// the library cannot tell.
  virtual int getDescriptor() const { return -1; }
  virtual bool arm() { return true; }
  /// Returns after `Most`, or as soon as a message may have moved.
  void rest(Clock::duration Most) {
    if (Most > Clock::duration::zero() && arm())
      restOn(Most, getDescriptor(), -1);
  }
  /// Ends all ranks, after a failure of this one.
  virtual void abort(const std::string &Message) = 0;
  /// How long the messages sent so far occupied an injected link.
  virtual double getLinkSeconds() const { return 0; }
  /// Orderly end; collective. Not called after a failure.
  virtual void close() {}

  /// Bytes sent so far.
  int64_t getSentBytes(int Peer) const {
    return SentBytes[static_cast<size_t>(Peer)];
  }

protected:
  virtual void doReserve(int Requests) = 0;
  virtual Request doSend(int Peer, int Tag, const void *Data, size_t Bytes) = 0;

private:
  std::vector<int64_t> SentBytes;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_TRANSPORT_H

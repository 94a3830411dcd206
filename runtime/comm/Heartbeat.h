//===- Heartbeat.h - What watchdogs tell each other -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_HEARTBEAT_H
#define POPLAR_RUNTIME_COMM_HEARTBEAT_H

#include "comm/CommStream.h"

#include <string>
#include <utility>

namespace poplar::runtime::comm {

/// A message between two watchdogs; both run on machines of one byte order.
struct Heartbeat {
  enum Kind : int32_t { Alive, Failed, Verdict, Goodbye };
  uint64_t Session = 0; // the same for all ranks of a job, and for no other job
  Kind TheKind = Alive;
  int32_t Rank = -1, Pid = 0;
  int32_t Waiting = 0, LastKind = -1, LastBucket = -1;
  int32_t OldestKind = -1, OldestBucket = -1; // that is not complete
  double OldestSeconds = 0;
  int64_t Started = 0, Completed = 0;
  double IdleSeconds = 0;    // since the last sign of progress
  double AllowedSeconds = 0; // until which this is all right
  double PredictedSeconds = 0;
  char Phase[32] = {};
  char Name[96] = {};  // host and device type
  char Text[512] = {}; // of Failed and Verdict

  void setText(const std::string &Message);
  /// Whether its numbers can be; ends its strings.
  bool check();
  /// `rank 2 (vm, host:avx2-f32, pid 123)`
  std::string getRankName() const;
  /// `last collective: 41 (all-gather, bucket 3), complete`, or `last
  /// collective: 41 (all-gather, bucket 3), 38 complete, the next one
  /// (reduce-scatter, bucket 2) for 12.3 s not`
  std::string getLastCollective() const;
};

/// A nonblocking TCP connection, over which heartbeats go.
class HeartbeatLink {
public:
  /// Takes a connected or a listening socket, which it owns, or -1.
  explicit HeartbeatLink(int Socket);
  HeartbeatLink(HeartbeatLink &&Other) noexcept;
  HeartbeatLink &operator=(HeartbeatLink &&Other) noexcept;
  ~HeartbeatLink();

  int socket() const { return Socket; }
  bool isOpen() const { return Socket >= 0; }
  void close();
  /// Gives up the socket, which stays open.
  int release() { return std::exchange(Socket, -1); }
  /// Whatever does not fit the kernel's buffer is lost: the peer does not read.
  void send(const Heartbeat &Message);
  /// Whether there is a whole message. Closes the link when the peer has, or
  /// speaks for another job.
  bool receive(Heartbeat &Message, uint64_t Session);

private:
  int Socket;
  char Buffer[sizeof(Heartbeat)];
  size_t Filled = 0;
};

/// A socket that listens on any free port, of the loopback or of all networks;
/// throws an Error.
int listenForHeartbeats(uint16_t &Port, bool OnLoopback);
/// This host's IPv4 addresses, separated by spaces, its loopback last.
std::string getAddresses();
/// Connects, and makes sure by an answer that the other end belongs to this
/// session; -1 if not within `Seconds`.
int connectForHeartbeats(const std::string &Address, uint16_t Port,
                         const Heartbeat &Greeting, Heartbeat &Answer,
                         double Seconds);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_HEARTBEAT_H

//===- CommStatistics.h - What communication took ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COMMSTATISTICS_H
#define POPLAR_RUNTIME_COMM_COMMSTATISTICS_H

#include "comm/Collective.h"

#include <cstdint>

namespace poplar::runtime::comm {

/// The amount of communication, and how much of it computation hid.
struct CommStatistics {
  struct PerKind {
    int64_t Count = 0;
    /// Sent by this rank, to ranks of its node and of others.
    int64_t LocalBytes = 0, RemoteBytes = 0;
    double ThreadSeconds = 0;  // the communication thread was busy with it
    double ExposedSeconds = 0; // the caller waited for it
  };
  PerKind Kinds[Collective::NumKinds];
  /// run(): counts, checks, messages; always waited for.
  int64_t Calls = 0;
  double CallSeconds = 0;
  /// Seconds in which this rank's messages occupied the injected link.
  double LinkSeconds = 0;
  /// Seconds of a core that the communication thread used: it copied, added and
  /// polled.
  double ProcessorSeconds = 0;

  double getThreadSeconds() const;
  double getExposedSeconds() const;
  /// The share of communication that the caller did not wait for, 0 to 1.
  double getHiddenShare() const;
};

/// The state of a rank's communication, for a watchdog; read from any thread.
struct CommStatus {
  int64_t Started = 0, Completed = 0; // number of collectives
  int32_t Kind = -1, Bucket = -1;     // of the last one started
  /// The rank's own thread waits, or its device does.
  bool Waiting = false;
  /// The oldest collective that is not complete, if there is one, and for how
  /// long it has been the oldest.
  int32_t OldestKind = -1, OldestBucket = -1;
  double OldestSeconds = 0;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COMMSTATISTICS_H

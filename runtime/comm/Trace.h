//===- Trace.h - What a rank did when ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events of the computing thread, the communication thread, and a device that
// waits by itself for collectives, and the steps of training, kept in memory
// that is allocated at the start, and written as a Chrome trace, which Perfetto
// and chrome://tracing show. Each lane is written by one thread.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_TRACE_H
#define POPLAR_RUNTIME_COMM_TRACE_H

#include "comm/Transport.h"

#include <cstdint>

namespace poplar::runtime::comm {

class Communicator;

class Trace {
public:
  enum Lane { Compute = 0, Communication = 1, Device = 2, Steps = 3 };

  /// Records at most `Capacity` events per lane; more are counted, not kept.
  explicit Trace(size_t Capacity);

  /// `Name` is a literal. `Number` and `Bytes` are shown if not negative.
  void record(Lane L, const char *Name, Clock::time_point Begin,
              Clock::time_point End, int64_t Number = -1, int64_t Bytes = -1);

  /// The rank's events as elements of a JSON array, separated by commas.
  std::string toJSON(int Rank, const std::string &Name) const;

  /// Rank 0 writes the events of all ranks to a file. Collective. `Name`
  /// describes this rank: its host and device type.
  void write(Communicator &C, const std::string &Path,
             const std::string &Name) const;

private:
  struct Event {
    const char *Name;
    Clock::time_point Begin, End;
    int64_t Number, Bytes;
  };
  struct Events {
    std::vector<Event> Kept;
    int64_t Dropped = 0;
  };

  size_t Capacity;
  Events Lanes[4];
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_TRACE_H

//===- Pause.h - Between two polls ------------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_RUNTIME_COMM_PAUSE_H
#define POPLAR_RUNTIME_COMM_PAUSE_H

#include "comm/Transport.h"

#include <algorithm>
#include <thread>

namespace poplar::runtime::comm {

/// A sleep between two polls that found nothing to do. The thread shares its
/// core with computation, so it sleeps, `Longest` at most, and longer after a
/// long wait: every poll takes some microseconds of the core. It does not
/// yield: a computing thread would then keep the core for a whole time slice,
/// milliseconds, whereas a thread that wakes up gets it at once.
class Pause {
public:
  explicit Pause(Clock::duration Longest = std::chrono::microseconds(200))
      : Longest(Longest) {}

  void wait(Clock::time_point NextEvent = Clock::time_point::max()) {
    Clock::duration Time = next(NextEvent);
    if (Time > Clock::duration::zero())
      std::this_thread::sleep_for(Time);
  }

  /// How long to sleep this time, for those who sleep otherwise: at most until
  /// `NextEvent`, and not at all before the first few polls.
  Clock::duration next(Clock::time_point NextEvent) {
    Clock::time_point Now = Clock::now();
    if (++Polls == 1)
      Begin = Now;
    if (Polls < 4)
      return Clock::duration::zero();
    Clock::duration Time = std::min(Sleep, NextEvent - Now);
    Clock::duration Most =
        std::clamp<Clock::duration>((Now - Begin) / 16, Longest, 5 * Longest);
    Sleep = std::min(Sleep * 2, Most);
    return Time;
  }

private:
  Clock::duration Longest;
  int Polls = 0;
  Clock::time_point Begin;
  Clock::duration Sleep = std::chrono::microseconds(10);
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_PAUSE_H

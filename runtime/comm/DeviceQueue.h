//===- DeviceQueue.h - Collectives that a device orders ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The collectives of a CommStream that are queued on the rank's device and not
// yet complete, the points at which the device waits for them, and what is
// known of when it began and ended each.
//
// Locking: the communication thread adds collectives and looks at the oldest
// one; the rank's thread lets the device wait for one that was added. The
// stream's mutex guards what both of them use, which is the waits: setOrder(),
// wait(), isWaiting() and record() are called with it held. The others belong
// to the communication thread and are called without it, because they may call
// the device's library; look() takes it itself for a moment. The order changes
// only while the rank waits, so both threads read it without the mutex. The
// stream hands a collective from the thread to the rank: it counts the
// collective as queued with the mutex held.
//
// Nothing is allocated once the queue is made.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_DEVICEQUEUE_H
#define POPLAR_RUNTIME_COMM_DEVICEQUEUE_H

#include "comm/Collective.h"
#include "comm/Trace.h"
#include "comm/Transport.h"

#include <mutex>
#include <vector>

namespace poplar::runtime::comm {

class DeviceQueue {
public:
  /// Numbers collectives as the stream does. Fewer than NumPoints of them are
  /// queued at a time.
  using Ticket = int64_t;
  static constexpr int NumPoints = DeviceOrder::NumPoints;

  DeviceQueue() { Waits.reserve(NumPoints); }

  /// What orders collectives on the device; null where none does.
  void setOrder(DeviceOrder *New) { Order = New; }
  DeviceOrder *getOrder() const { return Order; }

  /// Adds a collective behind which nothing was given to the device yet, and
  /// by which this rank sends so many bytes.
  void add(Ticket T, int64_t LocalBytes, int64_t RemoteBytes);
  /// The device, at its point `Here`, waits for a collective that was added and
  /// is not complete: returns the point to wait for.
  void *wait(Ticket T, void *Here);
  /// Whether the device waited when the thread looked last.
  bool isWaiting() const { return IsWaiting; }

  /// What the thread has seen of the oldest collective.
  struct Sight {
    bool IsComplete;
    /// The device has come to the first of its waits.
    bool HasCome;
    /// When the device had its turn, and now.
    Clock::time_point Begin, Now;
    int64_t LocalBytes, RemoteBytes;
  };
  /// Looks at the oldest collective, which began no earlier than the device
  /// came to point `After`, unless that is null.
  Sight look(Ticket T, void *After, std::mutex &Mutex);
  /// Takes note of what was seen: returns for how many seconds since the last
  /// look the device has waited.
  double record(Ticket T, const Sight &Seen, Trace *Events);
  /// When the thread looked last. There was nothing to look at before now.
  Clock::time_point getLastLook() const { return LookedAt; }
  void setLastLook(Clock::time_point Now) { LookedAt = Now; }

private:
  /// A collective that is queued on the device.
  struct Flight {
    /// Behind it, and where the device waits for it: null if it does not.
    void *End = nullptr, *Wait = nullptr;
    /// When the device had its turn, and what else it needed.
    bool HasBegun = false;
    Clock::time_point Begin;
    int64_t LocalBytes = 0, RemoteBytes = 0;
  };

  Flight &getFlight(Ticket T) { return Flights[T % NumPoints]; }

  DeviceOrder *Order = nullptr;
  Flight Flights[NumPoints];
  /// What the device waits for, in the order in which it comes to that, and
  /// whether it has come to the first.
  std::vector<Ticket> Waits;
  bool IsWaiting = false;
  /// When the thread looked last, and since when the device waits.
  Clock::time_point LookedAt, WaitsSince;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_DEVICEQUEUE_H

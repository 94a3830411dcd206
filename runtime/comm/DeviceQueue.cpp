//===- DeviceQueue.cpp - Collectives that a device orders -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/DeviceQueue.h"

#include <algorithm>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

void DeviceQueue::add(Ticket T, int64_t LocalBytes, int64_t RemoteBytes) {
  Flight &F = getFlight(T);
  F = {};
  F.End = Order->recordPoint(static_cast<int>(T % NumPoints));
  F.LocalBytes = LocalBytes;
  F.RemoteBytes = RemoteBytes;
}

void *DeviceQueue::wait(Ticket T, void *Here) {
  Flight &F = getFlight(T);
  if (!F.Wait)
    Waits.push_back(T);
  F.Wait = Here;
  return F.End;
}

DeviceQueue::Sight DeviceQueue::look(Ticket T, void *After, std::mutex &Mutex) {
  Flight &F = getFlight(T);
  std::unique_lock<std::mutex> Lock(Mutex);
  void *Wait = Waits.empty() ? nullptr : getFlight(Waits.front()).Wait;
  Lock.unlock();
  bool HasCome = Wait && Order->hasReached(Wait);
  if (!F.HasBegun && (!After || Order->hasReached(After))) {
    F.HasBegun = true;
    F.Begin = LookedAt;
  }
  bool IsComplete = Order->hasReached(F.End);
  return {IsComplete,   HasCome,      F.Begin,
          Clock::now(), F.LocalBytes, F.RemoteBytes};
}

double DeviceQueue::record(Ticket T, const Sight &Seen, Trace *Events) {
  double Waited = 0;
  if (IsWaiting)
    Waited = toSeconds(Seen.Now - LookedAt);
  else if (Seen.HasCome)
    WaitsSince = Seen.Now;
  bool Ends = Seen.HasCome && Seen.IsComplete && Waits.front() == T;
  if (Ends && Events)
    Events->record(Trace::Device, "wait", WaitsSince, Seen.Now, T);
  IsWaiting = Seen.HasCome && !Ends;
  LookedAt = Seen.Now;
  if (Seen.IsComplete)
    Waits.erase(std::remove(Waits.begin(), Waits.end(), T), Waits.end());
  return Waited;
}

//===- CommStreamThread.cpp - Collectives: the communication thread -------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/CommStream.h"
#include "support/Cores.h"

#include <algorithm>
#include <sys/prctl.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

void CommStream::countProcessor(double Since) {
  std::lock_guard<std::mutex> Lock(Mutex);
  Statistics.ProcessorSeconds += getThreadSeconds() - Since;
}

void CommStream::execute(const Operation &Op) {
  Clock::time_point Begin = Clock::now();
  if (Op.Function) {
    // The caller of a call gets what it throws.
    try {
      Op.Function(Op.Context, Ranks.getCurrent());
    } catch (...) {
      std::lock_guard<std::mutex> Lock(Mutex);
      CallFailure = std::current_exception();
    }
    ++Statistics.Calls;
    Statistics.CallSeconds += toSeconds(Clock::now() - Begin);
    return;
  }
  // Without the messages that leave in this time.
  const CommStatistics::PerKind &Sent =
      Statistics.Kinds[Collective::SendMessage];
  auto GetLocal = [&] {
    return Ranks.getCurrent().getLocalBytes() - Sent.LocalBytes;
  };
  auto GetRemote = [&] {
    return Ranks.getCurrent().getRemoteBytes() - Sent.RemoteBytes;
  };
  int64_t Local = GetLocal(), Remote = GetRemote();
  double Processor = getThreadSeconds();
  Ranks.execute(Op.C);
  countProcessor(Processor);
  account(Op.C, Begin, Clock::now(), GetLocal() - Local, GetRemote() - Remote);
}

void CommStream::account(const Collective &C, Clock::time_point Begin,
                         Clock::time_point End, int64_t LocalBytes,
                         int64_t RemoteBytes) {
  CommStatistics::PerKind &K = Statistics.Kinds[C.TheKind];
  ++K.Count;
  K.LocalBytes += LocalBytes;
  K.RemoteBytes += RemoteBytes;
  K.ThreadSeconds += toSeconds(End - Begin);
  Statistics.LinkSeconds = Ranks.getCurrent().getLinkSeconds();
  if (Events)
    Events->record(Trace::Communication, getName(C.TheKind), Begin, End,
                   C.Bucket, LocalBytes + RemoteBytes);
}

//===----------------------------------------------------------------------===//
// Collectives that a device orders
//===----------------------------------------------------------------------===//

void CommStream::queue(Ticket T) {
  watch(T - NumPoints, /*OrWork=*/false);
  const Collective &C = getOperation(T).C;
  double Processor = getThreadSeconds();
  const Communicator &Used = Ranks.getRanks(C);
  int64_t Local = Used.getLocalBytes(), Remote = Used.getRemoteBytes();
  Device.getOrder()->setQueueing(true);
  Ranks.execute(C);
  Device.getOrder()->setQueueing(false);
  Local = Used.getLocalBytes() - Local;
  if (C.Transfers)
    for (const IslandLibrary::Transfer &Given : *C.Transfers)
      Local += Given.SourceBytes;
  Device.add(T, Local, Used.getRemoteBytes() - Remote);
  countProcessor(Processor);
  if (Completed + 1 == T)
    Device.setLastLook(Clock::now());
}

/// Whether the oldest collective is complete now.
bool CommStream::look() {
  Ticket T = Completed + 1;
  const Collective &C = getOperation(T).C;
  DeviceQueue::Sight Seen = Device.look(T, C.After, Mutex);
  std::lock_guard<std::mutex> Lock(Mutex);
  if (Seen.IsComplete)
    account(C, Seen.Begin, Seen.Now, Seen.LocalBytes, Seen.RemoteBytes);
  Statistics.Kinds[C.TheKind].ExposedSeconds +=
      Device.record(T, Seen, Events.get());
  if (Seen.IsComplete)
    complete();
  return Seen.IsComplete;
}

void CommStream::watch(Ticket Until, bool OrWork) {
  if (Completed >= Until)
    return;
  double Processor = getThreadSeconds();
  Clock::time_point Since = Clock::now();
  auto MayLeave = [&] { return OrWork && HasWork; };
  while (Completed < Until && !MayLeave()) {
    if (look()) {
      Since = Device.getLastLook();
      continue;
    }
    if (advanceMessages())
      continue;
    // The host's cores have little else to do; new work does not wait.
    auto Pause = std::clamp<Clock::duration>(
        (Device.getLastLook() - Since) / 16, std::chrono::microseconds(20),
        std::chrono::microseconds(100));
    std::unique_lock<std::mutex> Lock(Mutex);
    Work.wait_for(Lock, Pause, MayLeave);
  }
  countProcessor(Processor);
}

void CommStream::complete() {
  ++Completed;
  OldestSince = Clock::now();
  Status.Completed += !getOperation(Completed).Function;
  Progress.notify_one();
}

//===----------------------------------------------------------------------===//
// The loop
//===----------------------------------------------------------------------===//

bool CommStream::advanceMessages() {
  if (!Messages.isActive())
    return false;
  std::lock_guard<std::mutex> Lock(Mutex);
  return Messages.advance();
}

/// Until there is something else to do. A message that is started wakes the
/// thread; one on its way needs it now and then, the less if the rank waits for
/// one, and moves them itself.
void CommStream::pollMessages(std::unique_lock<std::mutex> &Lock) {
  while (Messages.isActive() && !HasWork && !Failure)
    Messages.poll(Lock, Status.Waiting);
}

void CommStream::loop(const Factory &Make) {
  ShortSlices Slices;
  prctl(PR_SET_NAME, "poplar-comm");
  try {
    Ranks.setFirst(Make());
    Ranks.getFirst().setBackground([this] { return advanceMessages(); });
    serve();
  } catch (...) {
    std::lock_guard<std::mutex> Lock(Mutex);
    if (!Failure)
      Failure = std::current_exception();
  }
  std::lock_guard<std::mutex> Lock(Mutex);
  HasEnded = true;
  Progress.notify_one();
}

void CommStream::serve() {
  std::unique_lock<std::mutex> Lock(Mutex);
  Ready = true;
  Progress.notify_one();
  while (true) {
    Work.wait(Lock, [&] {
      return Closing || Failure || Completed < Issued || Messages.isActive();
    });
    if (Failure || (Completed == Issued && !Messages.isActive()))
      return;
    if (Completed == Issued) {
      pollMessages(Lock);
      continue;
    }
    if (Queued == Issued) {
      Lock.unlock();
      watch(Queued, /*OrWork=*/true);
      Lock.lock();
      continue;
    }
    // Only this thread frees the place in the ring.
    Ticket Next = Queued + 1;
    const Operation &Op = getOperation(Next);
    bool IsQueued = isQueuedOnDevice(Op);
    IsExecuting = true;
    Lock.unlock();
    if (IsQueued) {
      queue(Next);
    } else {
      // What is called, too, comes after what was started before.
      watch(Queued, /*OrWork=*/false);
      execute(Op);
    }
    Lock.lock();
    IsExecuting = false;
    Queued = Next;
    HasWork = Queued < Issued;
    if (!IsQueued)
      complete();
    Progress.notify_one();
  }
}

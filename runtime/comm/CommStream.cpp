//===- CommStream.cpp - Collectives: the rank's own thread ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What other threads than the communication thread call. That thread's part is
// in CommStreamThread.cpp.
//
//===----------------------------------------------------------------------===//

#include "comm/CommStream.h"
#include "support/Cores.h"
#include "support/Error.h"

#include <csignal>
#include <sys/prctl.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

CommStream::CommStream(const Factory &Make, size_t TraceCapacity)
    : Events(TraceCapacity ? std::make_unique<Trace>(TraceCapacity) : nullptr),
      Ring(Capacity) {
  // Short sleeps between polls are to be short, on both threads.
  prctl(PR_SET_TIMERSLACK, 1000);
  // Signals are for the rank's own thread.
  sigset_t All, Before;
  sigfillset(&All);
  pthread_sigmask(SIG_SETMASK, &All, &Before);
  Thread = std::thread([this, &Make] { loop(Make); });
  pthread_sigmask(SIG_SETMASK, &Before, nullptr);
  std::unique_lock<std::mutex> Lock(Mutex);
  Progress.wait(Lock, [&] { return Ready || Failure; });
  if (Failure) {
    Lock.unlock();
    Thread.join();
    throwFailure();
  }
}

CommStream::~CommStream() {
  if (!Thread.joinable())
    return;
  {
    std::lock_guard<std::mutex> Lock(Mutex);
    Ranks.interrupt();
    Closing = true;
  }
  Work.notify_one();
  Thread.join();
}

void CommStream::interrupt() {
  std::lock_guard<std::mutex> Lock(Mutex);
  Ranks.interrupt();
}

int CommStream::addSubgroup(const std::vector<int> &Members) {
  if (Ranks.hasTop())
    fail(getBackend(), " has no groups of some ranks");
  std::unique_ptr<Communicator> Group;
  run([&](Communicator &C) { Group = C.makeSubgroup(Members); });
  std::lock_guard<std::mutex> Lock(Mutex);
  return Ranks.addSubgroup(std::move(Group));
}

void CommStream::useSites(int Subgroup, const Topology &Sites) {
  run([&](Communicator &All) {
    Communicator &Members = Subgroup < 0 ? All : Ranks.getSubgroup(Subgroup);
    Members.useSites(Sites);
  });
}

void CommStream::throwFailure() const {
  if (Failure)
    std::rethrow_exception(Failure);
}

/// After what the thread is to see has been written with the lock.
void CommStream::wake() {
  Work.notify_one();
  Messages.wake();
}

CommStream::Ticket CommStream::enqueue(const Operation &Op) {
  std::unique_lock<std::mutex> Lock(Mutex);
  Progress.wait(Lock, [&] {
    return Failure || Issued - Completed < static_cast<Ticket>(Capacity);
  });
  throwFailure();
  if (Completed == Issued)
    OldestSince = Clock::now();
  getOperation(++Issued) = Op;
  HasWork = true;
  if (!Op.Function) {
    ++Status.Started;
    Status.Kind = Op.C.TheKind;
    Status.Bucket = Op.C.Bucket;
  }
  Lock.unlock();
  wake();
  return Issued;
}

CommStream::Ticket CommStream::start(const Collective &C) {
  return enqueue({C, nullptr, nullptr});
}

void CommStream::wait(Ticket T) {
  std::unique_lock<std::mutex> Lock(Mutex);
  throwFailure();
  if (Completed >= T)
    return;
  if (T > Issued)
    fail("wait for collective ", T, ", but only ", Issued, " were started");
  // The wait is charged to the collectives in the order of their completion.
  Status.Waiting = true;
  Clock::time_point Begin = Clock::now(), Last = Begin;
  while (Completed < T && !Failure) {
    const Operation &Next = getOperation(Completed + 1);
    double *Exposed = Next.Function
                          ? nullptr
                          : &Statistics.Kinds[Next.C.TheKind].ExposedSeconds;
    Ticket Before = Completed;
    Progress.wait(Lock, [&] { return Completed != Before || Failure; });
    Clock::time_point Now = Clock::now();
    // Charged already, where the device waits, too.
    if (Exposed && !Device.isWaiting())
      *Exposed += toSeconds(Now - Last);
    Last = Now;
  }
  Status.Waiting = false;
  if (Events)
    Events->record(Trace::Compute, "wait", Begin, Last, T);
  throwFailure();
}

int CommStream::getStartPoint() {
  std::unique_lock<std::mutex> Lock(Mutex);
  Progress.wait(Lock,
                [&] { return Failure || Issued + 1 - Completed <= NumPoints; });
  throwFailure();
  return static_cast<int>((Issued + 1) % NumPoints);
}

void *CommStream::waits(Ticket T, void *Here) {
  std::unique_lock<std::mutex> Lock(Mutex);
  if (T > Issued)
    fail("wait for collective ", T, ", but only ", Issued, " were started");
  // A point that is not there yet would be no wait.
  Status.Waiting = true;
  Progress.wait(Lock, [&] { return Queued >= T || Failure; });
  Status.Waiting = false;
  throwFailure();
  if (Completed >= T)
    return nullptr;
  return Device.wait(T, Here);
}

void CommStream::call(CallFunction Function, void *Context) {
  wait(enqueue({{}, Function, Context}));
  std::exception_ptr Thrown;
  {
    std::lock_guard<std::mutex> Lock(Mutex);
    std::swap(Thrown, CallFailure);
  }
  if (Thrown)
    std::rethrow_exception(Thrown);
}

void CommStream::extend(
    const std::function<std::unique_ptr<Communicator>(Communicator &)> &Make) {
  run([&](Communicator &) {
    std::unique_ptr<Communicator> Made = Make(Ranks.getFirst());
    if (!Made)
      return;
    std::lock_guard<std::mutex> Lock(Mutex);
    Ranks.swapTop(Made);
    Device.setOrder(Ranks.getCurrent().getDeviceOrder());
  });
}

void CommStream::useLibraries(
    const std::function<DeviceLibraries(Communicator &)> &Make) {
  run([&](Communicator &) {
    DeviceLibraries Made = Make(Ranks.getFirst());
    if (!Made.Exchanges && Made.Subgroups.empty())
      return;
    // Messages go on while the others of an island are waited for.
    CommunicatorSet::Layer Libraries =
        Ranks.makeLayer(std::move(Made), [this] { return advanceMessages(); });
    std::lock_guard<std::mutex> Lock(Mutex);
    Device.setOrder(Libraries.Order.get());
    Ranks.swapLibraries(Libraries);
  });
}

/// Collective.
void CommStream::removeTop() {
  run([&](Communicator &) {
    Ranks.getLayers().close();
    // They go without the lock.
    CommunicatorSet::Layer Old;
    std::lock_guard<std::mutex> Lock(Mutex);
    Device.setOrder(nullptr);
    Old = Ranks.takeLayers();
  });
}

//===----------------------------------------------------------------------===//
// Messages between two ranks
//===----------------------------------------------------------------------===//

void CommStream::reserveMessages(int Count) {
  run([&](Communicator &C) {
    C.reserveMessages(Count);
    std::lock_guard<std::mutex> Lock(Mutex);
    Messages.reserve(Ranks.getFirst(), Count);
  });
}

int CommStream::startMessage(bool Sends, int Peer, int Kind, void *Data,
                             int64_t Bytes) {
  std::unique_lock<std::mutex> Lock(Mutex);
  throwFailure();
  if (Ranks.hasTop())
    fail("no messages overtake collectives of ", getBackend());
  int Number = Messages.add(Sends, Peer, Kind, Data, Bytes);
  ++Status.Started;
  Status.Kind = Sends ? Collective::SendMessage : Collective::ReceiveMessage;
  Status.Bucket = -1;
  callHere([&] { Messages.startQueued(); });
  throwFailure();
  // The thread is to look at it now and then while the rank computes.
  bool LooksSoon = Messages.looksSoon();
  Lock.unlock();
  if (!LooksSoon)
    wake();
  return Number;
}

int CommStream::send(int Peer, int Kind, const void *Data, int64_t Bytes) {
  return startMessage(true, Peer, Kind, const_cast<void *>(Data), Bytes);
}

int CommStream::receive(int Peer, int Kind, void *Data, int64_t Bytes) {
  return startMessage(false, Peer, Kind, Data, Bytes);
}

template <typename Function> void CommStream::callHere(Function &&Body) {
  if (IsExecuting)
    return;
  try {
    Body();
  } catch (...) {
    Failure = std::current_exception();
  }
}

void CommStream::waitHere(std::unique_lock<std::mutex> &Lock, int Number) {
  // It wakes up often now, and others may want its core.
  ShortSlices Slices;
  Pause P(MessageQueue::ShortPause);
  while (!Messages.isDone(Number) && !Failure) {
    if (IsExecuting) {
      Progress.wait(Lock, [&] {
        return Messages.isDone(Number) || Failure || !IsExecuting;
      });
      continue;
    }
    callHere([&] { Messages.pollHere(Lock, Number, P); });
  }
  Messages.stopPollingHere();
}

void CommStream::waitMessage(int Number) {
  std::unique_lock<std::mutex> Lock(Mutex);
  Clock::time_point Begin = Clock::now();
  if (!Messages.isDone(Number))
    callHere([&] { Messages.test(Number); });
  if (!Messages.isDone(Number)) {
    Status.Waiting = true;
    waitHere(Lock, Number);
    Status.Waiting = false;
    if (Events)
      Events->record(Trace::Compute, "wait", Begin, Clock::now());
  }
  throwFailure();
  Messages.release(Number, Begin);
}

void CommStream::drain() {
  std::unique_lock<std::mutex> Lock(Mutex);
  bool Failed = std::uncaught_exceptions() > 0;
  if ((Completed < Issued || Messages.isActive()) && Failed)
    Ranks.interrupt();
  Progress.wait(Lock, [&] {
    return (Completed == Issued && !Messages.isActive()) || HasEnded;
  });
  if (!Ranks.hasTop() && !Device.getOrder())
    return;
  if (Failed || Failure) {
    // Its thread is idle, or has ended.
    Device.setOrder(nullptr);
    Ranks.takeLayers();
    return;
  }
  Lock.unlock();
  try {
    removeTop();
  } catch (...) {
    Lock.lock();
    Failure = std::current_exception();
  }
}

void CommStream::close() {
  // The watchdog of a job has closed it already.
  if (!Thread.joinable())
    return;
  waitAll();
  removeTop();
  run([](Communicator &C) { C.close(); });
  {
    std::lock_guard<std::mutex> Lock(Mutex);
    Closing = true;
  }
  Work.notify_one();
  Thread.join();
}

CommStatus CommStream::getStatus() const {
  std::lock_guard<std::mutex> Lock(Mutex);
  CommStatus Result = Status;
  Result.Completed += Messages.getNumCompleted();
  Result.Waiting |= Device.isWaiting();
  const Operation &Oldest = getOperation(Completed + 1);
  if (Completed < Issued && !Oldest.Function) {
    Result.OldestKind = Oldest.C.TheKind;
    Result.OldestBucket = Oldest.C.Bucket;
    Result.OldestSeconds = toSeconds(Clock::now() - OldestSince);
  }
  return Result;
}

std::string CommStream::getFailure() const {
  std::lock_guard<std::mutex> Lock(Mutex);
  try {
    throwFailure();
  } catch (const std::exception &E) {
    return E.what();
  }
  return "";
}

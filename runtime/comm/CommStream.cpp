//===- CommStream.cpp - Collectives on a thread of their own --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/CommStream.h"
#include "Cores.h"
#include "Error.h"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static double toSeconds(Clock::duration D) {
  return std::chrono::duration<double>(D).count();
}

const char *comm::getName(Collective::Kind K) {
  constexpr const char *Names[] = {"all-gather", "reduce-scatter",
                                   "all-reduce"};
  return Names[K];
}

double CommStatistics::getThreadSeconds() const {
  double Sum = 0;
  for (const PerKind &K : Kinds)
    Sum += K.ThreadSeconds;
  return Sum;
}

double CommStatistics::getExposedSeconds() const {
  double Sum = 0;
  for (const PerKind &K : Kinds)
    Sum += K.ExposedSeconds;
  return Sum;
}

double CommStatistics::getHiddenShare() const {
  double Thread = getThreadSeconds();
  return Thread > 0 ? std::max(0.0, 1 - getExposedSeconds() / Thread) : 0;
}

CommStream::CommStream(const Factory &Make, size_t TraceCapacity)
    : Events(TraceCapacity ? std::make_unique<Trace>(TraceCapacity) : nullptr),
      Ring(Capacity) {
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
    Comm->interrupt();
    Closing = true;
  }
  Work.notify_one();
  Thread.join();
}

void CommStream::throwFailure() const {
  if (Failure)
    std::rethrow_exception(Failure);
}

CommStream::Ticket CommStream::enqueue(const Operation &Op) {
  std::unique_lock<std::mutex> Lock(Mutex);
  Progress.wait(Lock, [&] {
    return Failure || Issued - Completed < static_cast<Ticket>(Capacity);
  });
  throwFailure();
  Ring[static_cast<size_t>(++Issued) % Capacity] = Op;
  if (!Op.Function) {
    ++Status.Started;
    Status.Kind = Op.C.TheKind;
    Status.Bucket = Op.C.Bucket;
  }
  Lock.unlock();
  Work.notify_one();
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
    const Operation &Next = Ring[static_cast<size_t>(Completed + 1) % Capacity];
    double *Exposed = Next.Function
                          ? nullptr
                          : &Statistics.Kinds[Next.C.TheKind].ExposedSeconds;
    Ticket Before = Completed;
    Progress.wait(Lock, [&] { return Completed != Before || Failure; });
    Clock::time_point Now = Clock::now();
    if (Exposed)
      *Exposed += toSeconds(Now - Last);
    Last = Now;
  }
  Status.Waiting = false;
  if (Events)
    Events->record(Trace::Compute, "wait", Begin, Last, T);
  throwFailure();
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

void CommStream::interrupt() {
  std::lock_guard<std::mutex> Lock(Mutex);
  Comm->interrupt();
}

void CommStream::extend(
    const std::function<std::unique_ptr<Communicator>(Communicator &)> &Make) {
  run([&](Communicator &) {
    std::unique_ptr<Communicator> Made = Make(*First);
    if (!Made)
      return;
    std::lock_guard<std::mutex> Lock(Mutex);
    Comm = Made.get();
    std::swap(Top, Made);
  });
}

/// Collective.
void CommStream::removeTop() {
  run([&](Communicator &) {
    if (!Top)
      return;
    Top->close();
    std::unique_ptr<Communicator> Old; // goes without the lock
    std::lock_guard<std::mutex> Lock(Mutex);
    Comm = First.get();
    std::swap(Old, Top);
  });
}

void CommStream::drain() {
  std::unique_lock<std::mutex> Lock(Mutex);
  bool Failed = std::uncaught_exceptions() > 0;
  if (Completed < Issued && Failed)
    Comm->interrupt();
  Progress.wait(Lock, [&] { return Completed == Issued || Failure; });
  if (!Top)
    return;
  if (Failed || Failure) {
    // Its thread is idle, or has ended.
    Comm = First.get();
    Top.reset();
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
  return Status;
}

void CommStream::executeCollective(const Collective &C) {
  auto *Values = static_cast<const float *>(C.Send);
  auto *Result = static_cast<float *>(C.Receive);
  if (C.After)
    Comm->waitFor(C.After);
  switch (C.TheKind) {
  case Collective::AllGather:
    return Comm->allGather(C.Send, C.SendType, C.Receive, C.ReceiveType, C.Wire,
                           C.Bounds);
  case Collective::ReduceScatter:
    return Comm->reduceScatter(Values, Result, C.Accumulate, C.Wire, C.Bounds);
  case Collective::AllReduce:
    return Comm->allReduce(Values, Result, C.Wire, C.Bounds);
  }
}

void CommStream::execute(const Operation &Op) {
  Clock::time_point Begin = Clock::now();
  if (Op.Function) {
    // What a call throws is its caller's business.
    try {
      Op.Function(Op.Context, *Comm);
    } catch (...) {
      std::lock_guard<std::mutex> Lock(Mutex);
      CallFailure = std::current_exception();
    }
    ++Statistics.Calls;
    Statistics.CallSeconds += toSeconds(Clock::now() - Begin);
    return;
  }
  int64_t Local = Comm->getLocalBytes(), Remote = Comm->getRemoteBytes();
  double Processor = getThreadSeconds();
  executeCollective(Op.C);
  Statistics.ProcessorSeconds += getThreadSeconds() - Processor;
  Clock::time_point End = Clock::now();
  CommStatistics::PerKind &K = Statistics.Kinds[Op.C.TheKind];
  ++K.Count;
  Local = Comm->getLocalBytes() - Local;
  Remote = Comm->getRemoteBytes() - Remote;
  K.LocalBytes += Local;
  K.RemoteBytes += Remote;
  K.ThreadSeconds += toSeconds(End - Begin);
  Statistics.LinkSeconds = Comm->getLinkSeconds();
  if (Events)
    Events->record(Trace::Communication, getName(Op.C.TheKind), Begin, End,
                   Op.C.Bucket, Local + Remote);
}

void CommStream::loop(const Factory &Make) {
  // Short sleeps between polls are to be short.
  prctl(PR_SET_TIMERSLACK, 1000);
  prctl(PR_SET_NAME, "poplar-comm");
  try {
    First = Make();
    std::unique_lock<std::mutex> Lock(Mutex);
    Comm = First.get();
    Ready = true;
    Progress.notify_one();
    while (true) {
      Work.wait(Lock, [&] { return Closing || Completed < Issued; });
      if (Completed == Issued)
        return;
      // Only this thread frees the place in the ring.
      const Operation &Op = Ring[static_cast<size_t>(Completed + 1) % Capacity];
      Lock.unlock();
      execute(Op);
      Lock.lock();
      ++Completed;
      Status.Completed += !Op.Function;
      Progress.notify_one();
    }
  } catch (...) {
    std::lock_guard<std::mutex> Lock(Mutex);
    Failure = std::current_exception();
    Progress.notify_one();
  }
}

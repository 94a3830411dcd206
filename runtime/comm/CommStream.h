//===- CommStream.h - Collectives on a thread of their own ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A communication thread that behaves like a stream: collectives are started in
// program order and run one after the other while the caller computes.
//
//   caller  start(a) start(b) ...computes... wait(a) ...computes... wait(b)
//   thread           |===== a =====|===== b =====|
//
// Where a device can order collectives (DeviceOrder), the thread only queues
// them there, one behind the other, and then watches: the device waits for what
// it needs, and the caller goes on.
//
//   caller  start(a) ...gives the device work... waits(a) ...gives it more...
//   thread           |a|.....looks for errors, and for the end.....|
//   device                |== work ==|      waits      |== more ==|
//   its library                      |======= a =======|
//
// All ranks start the same collectives in the same order. All calls to the
// communication library, its start and its end included, come from this thread,
// but for messages: the rank's own thread starts them itself, and tests them
// while it waits for one, unless this thread is in the midst of a collective
// (MessageQueue.h). Nothing is allocated once the stream runs.
//
// start(), wait(), run() and messages are for one thread: the rank's own.
//
// Locking: one mutex guards the ring of operations, the messages (MessageQueue)
// and the waits of the device (DeviceQueue); CommunicatorSet says who may read
// the communicators without it. The communication thread holds it neither while
// it executes an operation (IsExecuting) nor while it asks the device. It alone
// writes Queued and Completed, with the mutex held, and so reads them without
// it. It alone writes the statistics of collectives, but for exposed seconds:
// these and the statistics of messages are written with the mutex held. `Work`
// wakes the communication thread, `Progress` the rank's.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COMMSTREAM_H
#define POPLAR_RUNTIME_COMM_COMMSTREAM_H

#include "comm/Collective.h"
#include "comm/CommStatistics.h"
#include "comm/Communicator.h"
#include "comm/CommunicatorSet.h"
#include "comm/DeviceLibraries.h"
#include "comm/DeviceQueue.h"
#include "comm/MessageQueue.h"
#include "comm/Trace.h"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace poplar::runtime::comm {

class CommStream {
public:
  /// Numbers collectives from 1.
  using Ticket = int64_t;
  using Factory = std::function<std::unique_ptr<Communicator>()>;

  /// Makes the communicator on the new thread. With `TraceCapacity`, records as
  /// many events per lane.
  explicit CommStream(const Factory &Make, size_t TraceCapacity = 0);
  /// Without close(), whatever is under way is interrupted.
  ~CommStream();
  CommStream(const CommStream &) = delete;
  CommStream &operator=(const CommStream &) = delete;

  int rank() const { return Ranks.getCurrent().rank(); }
  int size() const { return Ranks.getCurrent().size(); }
  const char *getBackend() const { return Ranks.getCurrent().getBackend(); }
  const char *getLibrary() const { return Ranks.getCurrent().getLibrary(); }
  const Topology &getTopology() const {
    return Ranks.getCurrent().getTopology();
  }

  /// Returns at once, unless very many collectives are under way.
  Ticket start(const Collective &C);
  /// Returns when the collective and all before it are complete. Throws what
  /// went wrong, from then on always. Ticket 0 is complete.
  void wait(Ticket T);
  void waitAll() { wait(Issued); }

  /// Whether collectives of all ranks are ordered by the device, which then has
  /// to be told of every wait. What useLibraries takes always is.
  bool isOrderedByDevice() const { return Ranks.hasTop() && Device.getOrder(); }
  /// Numbers of points that belong to the collective that start() takes next,
  /// for Device::recordPoint: that of Collective::After, and that of waits().
  /// Waits until what had them is complete, which bounds how far the device's
  /// work may be behind: DeviceOrder::NumPoints collectives.
  int getStartPoint();
  static int getWaitPoint(Ticket T) {
    return NumPoints + static_cast<int>(T % NumPoints);
  }
  static constexpr int NumPoints = DeviceOrder::NumPoints;
  /// The device, at its point `Here`, waits for a collective: returns the point
  /// to wait for, at once if the thread has queued the collective, or null if
  /// it is complete. Throws as wait() does.
  void *waits(Ticket T, void *Here);

  /// A group of some ranks, this one among them, for collectives. All of them
  /// have to call it. An Error, as are messages, after extend().
  int addSubgroup(const std::vector<int> &Members);
  /// What nodes are to the lossy sums of all ranks, or of a subgroup; see
  /// Communicator::useSites. Collective among these ranks; once.
  void useSites(int Subgroup, const Topology &Sites);

  /// Messages between two ranks, of a kind, which is a small number; those of a
  /// kind arrive in the order in which they were sent. They overtake
  /// collectives. Returns at once the message's number, which is valid until it
  /// was waited for.
  int send(int Peer, int Kind, const void *Data, int64_t Bytes);
  int receive(int Peer, int Kind, void *Data, int64_t Bytes);
  void waitMessage(int Number);
  /// Sets how many of them may be under way at a time: none at first.
  /// Collective.
  void reserveMessages(int Count);
  int getMaxMessages() const { return Messages.getCapacity(); }

  /// Calls `Body(Communicator &)` on the thread, after what was started before,
  /// and returns or throws when it does.
  template <typename Function> void run(Function &&Body) {
    using Callable = std::remove_reference_t<Function>;
    call([](void *Context,
            Communicator &C) { (*static_cast<Callable *>(Context))(C); },
         const_cast<void *>(static_cast<const void *>(&Body)));
  }

  /// Goes on with the communicator that `Make`, called on the thread, puts on
  /// top of the first one; with the one so far if that is null. It is closed
  /// and gone at the end of a MemoryGuard, or of the stream.
  void extend(
      const std::function<std::unique_ptr<Communicator>(Communicator &)> &Make);

  /// Takes exchanges and collectives of subgroups, too, of the memory of this
  /// rank's device, by the libraries that `Make`, called on the thread, gives.
  /// They go as what extend() has made does, which is something else.
  /// Collective.
  void useLibraries(const std::function<DeviceLibraries(Communicator &)> &Make);

  /// Orderly end; collective.
  void close();
  /// Makes operations under way throw. May be called from any thread.
  void interrupt();

  /// Declare one after the memory that collectives work on: the memory must not
  /// go while they do. At its end waits for them, or interrupts them, and with
  /// them the stream, if an exception is on its way.
  class MemoryGuard {
  public:
    explicit MemoryGuard(CommStream &Stream) : Stream(Stream) {}
    ~MemoryGuard() { Stream.drain(); }
    MemoryGuard(const MemoryGuard &) = delete;
    MemoryGuard &operator=(const MemoryGuard &) = delete;

  private:
    CommStream &Stream;
  };

  /// Statistics of what is complete. Call it when nothing is under way.
  CommStatistics getStatistics() const {
    std::lock_guard<std::mutex> Lock(Mutex);
    return Statistics;
  }
  CommStatus getStatus() const;
  /// What every call throws by now; empty if nothing has failed.
  std::string getFailure() const;
  /// Null without TraceCapacity.
  Trace *getTrace() { return Events.get(); }

private:
  using CallFunction = void (*)(void *, Communicator &);
  struct Operation {
    Collective C;
    CallFunction Function; // null for a collective
    void *Context;
  };
  static constexpr size_t Capacity = 1024;

  int startMessage(bool Sends, int Peer, int Kind, void *Data, int64_t Bytes);
  /// Starts and tests messages: on the communication thread, while it waits.
  bool advanceMessages();
  void pollMessages(std::unique_lock<std::mutex> &Lock);
  void wake();
  /// On the rank's thread, with the lock: calls `Body`, which calls the
  /// library, unless the thread is in the midst of an operation. What goes
  /// wrong is the stream's failure.
  template <typename Function> void callHere(Function &&Body);
  void waitHere(std::unique_lock<std::mutex> &Lock, int Number);
  void drain();
  void removeTop();
  void call(CallFunction Function, void *Context);
  Ticket enqueue(const Operation &Op);
  void loop(const Factory &Make);
  void serve();
  void execute(const Operation &Op);
  /// Adds the processor time of this thread since getThreadSeconds() was
  /// `Since`. The thread that asks for statistics may be ahead of it.
  void countProcessor(double Since);
  bool isQueuedOnDevice(const Operation &Op) const {
    return Device.getOrder() && !Op.Function && Ranks.isOnDevice(Op.C);
  }
  Operation &getOperation(Ticket T) {
    return Ring[static_cast<size_t>(T) % Capacity];
  }
  const Operation &getOperation(Ticket T) const {
    return Ring[static_cast<size_t>(T) % Capacity];
  }
  void account(const Collective &C, Clock::time_point Begin,
               Clock::time_point End, int64_t LocalBytes, int64_t RemoteBytes);
  /// On the thread: queues a collective on the device; looks whether the oldest
  /// of these is complete; does so until that one is, or there is other work.
  void queue(Ticket T);
  bool look();
  void watch(Ticket Until, bool OrWork);
  /// With the lock: operation number Completed + 1 is complete.
  void complete();
  void throwFailure() const;

  CommunicatorSet Ranks;
  std::unique_ptr<Trace> Events;
  CommStatistics Statistics;

  mutable std::mutex Mutex;
  std::condition_variable Work, Progress;
  std::vector<Operation> Ring;
  /// Operations are numbered from 1, calls included. What is handed to the
  /// device is queued, and all that is complete.
  Ticket Issued = 0, Queued = 0, Completed = 0;
  /// When the first of those that are not complete became that.
  Clock::time_point OldestSince;
  bool Ready = false, Closing = false;
  /// The thread has ended, by a failure, its own or the rank's, or a close.
  bool HasEnded = false;
  /// Whether the thread executes an operation, in which it calls the library
  /// without the lock.
  bool IsExecuting = false;
  /// Whether an operation is issued and not queued.
  std::atomic<bool> HasWork{false};
  DeviceQueue Device;
  MessageQueue Messages{Statistics, Progress};
  std::exception_ptr Failure, CallFailure;
  CommStatus Status;
  std::thread Thread;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COMMSTREAM_H

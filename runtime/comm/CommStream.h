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
// while it waits for one, unless this thread is in the midst of a collective.
// If this thread did so, it would wake the rank up on the core that they share,
// and often lose the core to it before it has gone to sleep; it would then get
// it back, and look at messages again, only when the rank waits again or its
// slice of some milliseconds ends.
// Nothing is allocated once the stream runs.
//
// start(), wait(), run() and messages are for one thread: the rank's own.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COMMSTREAM_H
#define POPLAR_RUNTIME_COMM_COMMSTREAM_H

#include "comm/Bell.h"
#include "comm/Communicator.h"
#include "comm/IslandLibrary.h"
#include "comm/Pause.h"
#include "comm/Trace.h"

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace poplar::runtime::comm {

/// One collective; see Communicator for what each does.
struct Collective {
  /// Messages between two ranks are counted as the collectives are.
  enum Kind : int32_t {
    AllGather = 0,
    ReduceScatter = 1,
    AllReduce = 2,
    SendMessage = 3,
    ReceiveMessage = 4,
    /// An exchange of a device's memory among ranks that share units; see
    /// useLibraries.
    Exchange = 5
  };
  static constexpr int NumKinds = 6;

  Kind TheKind = AllGather;
  /// AllGather: the own shard. Otherwise: the whole array, f32.
  const void *Send = nullptr;
  /// ReduceScatter: the own shard, f32. Otherwise: the whole array.
  void *Receive = nullptr;
  /// Bounds[size + 1], in elements; read until the collective is complete.
  const int64_t *Bounds = nullptr;
  Type Wire = Type::F32;
  /// Types of the memory; AllGather only.
  Type SendType = Type::F32, ReceiveType = Type::F32;
  /// ReduceScatter: add to the shard instead of overwriting it.
  bool Accumulate = false;
  /// The transfers of an exchange; read until it is complete.
  const std::vector<IslandLibrary::Transfer> *Transfers = nullptr;
  /// For reductions: sums that cross between nodes are rounded, and what that
  /// takes away is kept here (Communicator::Feedback).
  bool IsLossy = false;
  float *Residual = nullptr;
  /// For a device's memory: see Communicator::waitFor.
  void *After = nullptr;
  /// What the plan calls it, for reports: a bucket or unit number.
  int32_t Bucket = -1;
  /// Among which ranks: all, or those of a subgroup.
  int32_t Subgroup = -1;
};

/// all-gather, reduce-scatter, all-reduce
const char *getName(Collective::Kind K);

/// The libraries of a rank's device. All of them queue on one stream, so that
/// what they do is in the order in which it was queued.
struct DeviceLibraries {
  /// The library of exchanges with ranks that share units; null if there are
  /// none.
  std::unique_ptr<IslandLibrary> Exchanges;
  /// The library of a subgroup's collectives, and whether its ranks always have
  /// the same types of memory.
  struct OfSubgroup {
    int Subgroup;
    std::unique_ptr<IslandLibrary> Library;
    bool Uniform;
  };
  /// In the same order on any two ranks.
  std::vector<OfSubgroup> Subgroups;
};

/// How much communication there was, and how much of it hid behind computation.
struct CommStatistics {
  struct PerKind {
    int64_t Count = 0;
    /// Sent by this rank, to ranks of its node and of others.
    int64_t LocalBytes = 0, RemoteBytes = 0;
    double ThreadSeconds = 0;  // the thread was busy with it
    double ExposedSeconds = 0; // the caller waited for it
  };
  PerKind Kinds[Collective::NumKinds];
  /// run(): counts, checks, messages; always waited for.
  int64_t Calls = 0;
  double CallSeconds = 0;
  /// What the injected link was occupied by this rank's messages.
  double LinkSeconds = 0;
  /// The thread had a core: copied, added, polled.
  double ProcessorSeconds = 0;

  double getThreadSeconds() const;
  double getExposedSeconds() const;
  /// The share of communication that the caller did not wait for, 0 to 1.
  double getHiddenShare() const;
};

/// Where a rank's communication is, for a watchdog; read from any thread.
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

  int rank() const { return Comm->rank(); }
  int size() const { return Comm->size(); }
  const char *getBackend() const { return Comm->getBackend(); }
  const char *getLibrary() const { return Comm->getLibrary(); }
  const Topology &getTopology() const { return Comm->getTopology(); }

  /// Returns at once, unless very many collectives are under way.
  Ticket start(const Collective &C);
  /// Returns when the collective and all before it are complete. Throws what
  /// went wrong, from then on always. Ticket 0 is complete.
  void wait(Ticket T);
  void waitAll() { wait(Issued); }

  /// Whether collectives of all ranks are ordered by the device, which then has
  /// to be told of every wait. What useLibraries takes always is.
  bool isOrderedByDevice() const { return Top && Order; }
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
  int addSubgroup(const std::vector<int> &Ranks);
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
  /// How many of them may be under way at a time: none at first. Collective.
  void reserveMessages(int Count);
  int getMaxMessages() const { return static_cast<int>(Messages.size()); }

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
  /// From any thread: makes what is under way throw.
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
  const CommStatistics &getStatistics() const { return Statistics; }
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
  /// A collective that is queued on the device.
  struct Flight {
    /// Behind it, and where the device waits for it: null if it does not.
    void *End = nullptr, *Wait = nullptr;
    /// When the device had its turn, and what else it needed.
    bool HasBegun = false;
    Clock::time_point Begin;
    int64_t LocalBytes = 0, RemoteBytes = 0;
  };
  struct Message {
    enum State { Free, Queued, UnderWay, Done } TheState = Free;
    bool Sends = false;
    int Peer = 0, Kind = 0, Number = 0;
    void *Data = nullptr;
    int64_t Bytes = 0;
    Clock::time_point Begin;
  };

  int startMessage(bool Sends, int Peer, int Kind, void *Data, int64_t Bytes);
  /// Starts and tests messages: on the thread, while it waits for others.
  bool advanceMessages();
  /// With the lock, by which two threads take turns in calling the library.
  /// They return whether anything has moved.
  bool startMessages();
  bool testMessages();
  bool testMessage(Message &M);
  void pollMessages(std::unique_lock<std::mutex> &Lock);
  bool looksSoon() const;
  void wake();
  /// On the rank's thread, with the lock: calls `Body`, which calls the
  /// library, unless the thread is in the midst of an operation. What goes
  /// wrong is the stream's failure.
  template <typename Function> void callHere(Function &&Body);
  void waitHere(std::unique_lock<std::mutex> &Lock, Message &M);
  void pollHere(std::unique_lock<std::mutex> &Lock, Message &M, Pause &P);
  void drain();
  /// With the lock.
  void interruptAll();
  void removeTop();
  void call(CallFunction Function, void *Context);
  Ticket enqueue(const Operation &Op);
  void loop(const Factory &Make);
  void serve();
  void execute(const Operation &Op);
  void executeCollective(const Collective &C);
  bool isQueuedOnDevice(const Operation &Op) const {
    if (!Order || Op.Function)
      return false;
    return Op.C.TheKind == Collective::Exchange ||
           (Op.C.Subgroup < 0 ? Top != nullptr : isOnDevice(Op.C.Subgroup));
  }
  bool isOnDevice(int Subgroup) const {
    return static_cast<size_t>(Subgroup) < OnDevice.size() &&
           OnDevice[static_cast<size_t>(Subgroup)];
  }
  /// The communicator of a collective.
  Communicator &getRanks(const Collective &C) const;
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

  /// The first one, what extend() put on top of it, and the one in use.
  std::unique_ptr<Communicator> First, Top;
  Communicator *Comm = nullptr;
  std::vector<std::unique_ptr<Communicator>> Subgroups;
  /// Communicators on top of those, for subgroups whose collectives are of a
  /// device's memory; null for others.
  std::vector<std::unique_ptr<Communicator>> OnDevice;
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
  /// While it sleeps until a message may have moved, and until when.
  Bell Waker;
  std::atomic<bool> IsResting{false};
  Clock::time_point RestsUntil = Clock::time_point::min();
  /// When a message has moved last, and when the rank will look again, which
  /// waits for one.
  Clock::time_point MovedLast = Clock::now(),
                    PollsHere = Clock::time_point::min();
  std::vector<Message> Messages;
  /// Those that are queued, in order.
  std::vector<int> QueuedMessages;
  /// Queued or under way; also read without the mutex.
  std::atomic<int> ActiveMessages{0};
  /// Whether an operation is issued and not queued.
  std::atomic<bool> HasWork{false};
  /// The library that does exchanges, where there is one.
  std::unique_ptr<IslandLibrary> Library;
  std::unique_ptr<DeviceOrder> OrderOfLibraries;
  /// Null where collectives are complete when they return.
  DeviceOrder *Order = nullptr;
  Flight Flights[NumPoints];
  /// What the device waits for, in the order in which it comes to that, and
  /// whether it has come to the first.
  std::vector<Ticket> Waits;
  bool DeviceWaits = false;
  /// When the thread looked last, and since when the device waits.
  Clock::time_point LookedAt, WaitsSince;
  std::exception_ptr Failure, CallFailure;
  CommStatus Status;
  std::thread Thread;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COMMSTREAM_H

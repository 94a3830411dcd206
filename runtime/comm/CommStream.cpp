//===- CommStream.cpp - Collectives on a thread of their own --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/CommStream.h"
#include "comm/IslandCommunicator.h"
#include "support/Cores.h"
#include "support/Error.h"

#include <algorithm>
#include <csignal>
#include <sys/prctl.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static double toSeconds(Clock::duration D) {
  return std::chrono::duration<double>(D).count();
}

const char *comm::getName(Collective::Kind K) {
  constexpr const char *Names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                   "send",       "receive",        "exchange"};
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
  Waits.reserve(NumPoints);
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
    interruptAll();
    Closing = true;
  }
  Work.notify_one();
  Thread.join();
}

void CommStream::interrupt() {
  std::lock_guard<std::mutex> Lock(Mutex);
  interruptAll();
}

void CommStream::interruptAll() {
  Comm->interrupt();
  for (const std::unique_ptr<Communicator> &Group : Subgroups)
    Group->interrupt();
}

int CommStream::addSubgroup(const std::vector<int> &Ranks) {
  if (Top)
    fail(Top->getBackend(), " has no groups of some ranks");
  std::unique_ptr<Communicator> Group;
  run([&](Communicator &C) { Group = C.makeSubgroup(Ranks); });
  std::lock_guard<std::mutex> Lock(Mutex);
  Subgroups.push_back(std::move(Group));
  return static_cast<int>(Subgroups.size()) - 1;
}

void CommStream::useSites(int Subgroup, const Topology &Sites) {
  run([&](Communicator &All) {
    Communicator &Ranks = Subgroup < 0 ? All : *Subgroups[Subgroup];
    Ranks.useSites(Sites);
  });
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
  if (Completed == Issued)
    OldestSince = Clock::now();
  Ring[static_cast<size_t>(++Issued) % Capacity] = Op;
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
    const Operation &Next = Ring[static_cast<size_t>(Completed + 1) % Capacity];
    double *Exposed = Next.Function
                          ? nullptr
                          : &Statistics.Kinds[Next.C.TheKind].ExposedSeconds;
    Ticket Before = Completed;
    Progress.wait(Lock, [&] { return Completed != Before || Failure; });
    Clock::time_point Now = Clock::now();
    // Charged already, where the device waits, too.
    if (Exposed && !DeviceWaits)
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
  Flight &F = Flights[T % NumPoints];
  if (!F.Wait)
    Waits.push_back(T);
  F.Wait = Here;
  return F.End;
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
    std::unique_ptr<Communicator> Made = Make(*First);
    if (!Made)
      return;
    std::lock_guard<std::mutex> Lock(Mutex);
    Comm = Made.get();
    Order = Comm->getDeviceOrder();
    std::swap(Top, Made);
  });
}

namespace {
/// Orders the libraries that queue on one stream: that of exchanges, null if
/// there are none, which are queued as soon as it has taken them, and those of
/// subgroups.
class CommonOrder : public DeviceOrder {
public:
  CommonOrder(IslandLibrary *Exchanges, std::vector<DeviceOrder *> Subgroups)
      : Exchanges(Exchanges), Subgroups(std::move(Subgroups)) {}
  void setQueueing(bool On) override {
    for (DeviceOrder *Of : Subgroups)
      Of->setQueueing(On);
  }
  void *recordPoint(int Number) override {
    return Exchanges ? Exchanges->recordPoint(Number)
                     : Subgroups.front()->recordPoint(Number);
  }
  /// Asks all: each knows of its own errors.
  bool hasReached(void *Point) override {
    bool Reached = !Exchanges || Exchanges->hasReached(Point);
    for (DeviceOrder *Of : Subgroups)
      Reached &= Of->hasReached(Point);
    return Reached;
  }

private:
  IslandLibrary *Exchanges;
  std::vector<DeviceOrder *> Subgroups;
};
} // namespace

void CommStream::useLibraries(
    const std::function<DeviceLibraries(Communicator &)> &Make) {
  run([&](Communicator &) {
    DeviceLibraries Made = Make(*First);
    if (!Made.Exchanges && Made.Subgroups.empty())
      return;
    // Messages go on while the others of an island are waited for.
    auto Background = [this] { return advanceMessages(); };
    if (Made.Exchanges)
      Made.Exchanges->setBackground(Background);
    std::vector<std::unique_ptr<Communicator>> Tops(Subgroups.size());
    std::vector<DeviceOrder *> Orders;
    for (DeviceLibraries::OfSubgroup &S : Made.Subgroups) {
      S.Library->setBackground(Background);
      Communicator &Ranks = *Subgroups[static_cast<size_t>(S.Subgroup)];
      Topology Island(std::vector<int>(static_cast<size_t>(Ranks.size())),
                      {true});
      auto &Top = Tops[static_cast<size_t>(S.Subgroup)];
      Top = std::make_unique<IslandCommunicator>(
          Ranks, Island, std::move(S.Library), S.Uniform);
      Orders.push_back(Top->getDeviceOrder());
    }
    std::lock_guard<std::mutex> Lock(Mutex);
    std::swap(Library, Made.Exchanges);
    std::swap(OnDevice, Tops);
    OrderOfLibraries = std::make_unique<CommonOrder>(Library.get(), Orders);
    Order = OrderOfLibraries.get();
  });
}

/// Collective.
void CommStream::removeTop() {
  run([&](Communicator &) {
    if (Top)
      Top->close();
    for (const std::unique_ptr<Communicator> &Of : OnDevice)
      if (Of)
        Of->close();
    if (Library)
      Library->close();
    // They go without the lock.
    std::unique_ptr<Communicator> Old;
    std::unique_ptr<IslandLibrary> OldLibrary;
    std::vector<std::unique_ptr<Communicator>> OldOnDevice;
    std::lock_guard<std::mutex> Lock(Mutex);
    Comm = First.get();
    Order = nullptr;
    std::swap(Old, Top);
    std::swap(OldLibrary, Library);
    std::swap(OldOnDevice, OnDevice);
  });
}

//===----------------------------------------------------------------------===//
// Messages between two ranks
//===----------------------------------------------------------------------===//

void CommStream::reserveMessages(int Count) {
  run([&](Communicator &C) {
    C.reserveMessages(Count);
    std::lock_guard<std::mutex> Lock(Mutex);
    Messages.resize(static_cast<size_t>(Count));
    QueuedMessages.reserve(Messages.size());
  });
}

int CommStream::startMessage(bool Sends, int Peer, int Kind, void *Data,
                             int64_t Bytes) {
  std::unique_lock<std::mutex> Lock(Mutex);
  throwFailure();
  if (Top)
    fail("no messages overtake collectives of ", Top->getBackend());
  auto Place =
      std::find_if(Messages.begin(), Messages.end(), [](const Message &M) {
        return M.TheState == Message::Free;
      });
  if (Place == Messages.end())
    fail("more than ", Messages.size(), " messages are under way");
  auto Number = static_cast<int>(Place - Messages.begin());
  Message &M = *Place;
  M.TheState = Message::Queued;
  M.Sends = Sends;
  M.Peer = Peer;
  M.Kind = Kind;
  M.Data = Data;
  M.Bytes = Bytes;
  QueuedMessages.push_back(Number);
  ++ActiveMessages;
  ++Status.Started;
  Status.Kind = Sends ? Collective::SendMessage : Collective::ReceiveMessage;
  Status.Bucket = -1;
  callHere([&] { startMessages(); });
  throwFailure();
  // The thread is to look at it now and then while the rank computes.
  bool LooksSoon = looksSoon();
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

/// Pauses of a rank that waits for a message: between two polls at first, and
/// by how much a poll may be late before the thread polls instead.
static constexpr std::chrono::microseconds ShortPause(50), Patience(100);

template <typename Function> void CommStream::callHere(Function &&Body) {
  if (IsExecuting)
    return;
  try {
    Body();
  } catch (...) {
    Failure = std::current_exception();
  }
}

void CommStream::pollHere(std::unique_lock<std::mutex> &Lock, Message &M,
                          Pause &P) {
  if (First->isInterrupted())
    fail("interrupted");
  startMessages();
  // Which moves all messages: a test of each would take longer.
  if (testMessage(M))
    return;
  Clock::duration Time = P.next(First->getNextEvent());
  if (Time <= Clock::duration::zero() || !First->arm())
    return;
  PollsHere = Clock::now() + Time;
  int Descriptor = First->getDescriptor();
  Lock.unlock();
  restOn(Time, Descriptor, -1);
  Lock.lock();
}

void CommStream::waitHere(std::unique_lock<std::mutex> &Lock, Message &M) {
  // It wakes up often now, and others may want its core.
  ShortSlices Slices;
  Pause P(ShortPause);
  while (M.TheState != Message::Done && !Failure) {
    if (IsExecuting) {
      Progress.wait(Lock, [&] {
        return M.TheState == Message::Done || Failure || !IsExecuting;
      });
      continue;
    }
    callHere([&] { pollHere(Lock, M, P); });
  }
  PollsHere = Clock::time_point::min();
}

void CommStream::waitMessage(int Number) {
  std::unique_lock<std::mutex> Lock(Mutex);
  Message &M = Messages[static_cast<size_t>(Number)];
  Clock::time_point Begin = Clock::now();
  if (M.TheState != Message::Done)
    callHere([&] { testMessage(M); });
  if (M.TheState != Message::Done) {
    Status.Waiting = true;
    waitHere(Lock, M);
    Status.Waiting = false;
    if (Events)
      Events->record(Trace::Compute, "wait", Begin, Clock::now());
  }
  throwFailure();
  // A rank waits for what it receives because others compute.
  if (M.Sends)
    Statistics.Kinds[Collective::SendMessage].ExposedSeconds +=
        toSeconds(Clock::now() - Begin);
  M.TheState = Message::Free;
}

bool CommStream::advanceMessages() {
  if (ActiveMessages == 0)
    return false;
  std::lock_guard<std::mutex> Lock(Mutex);
  bool Moved = startMessages();
  return testMessages() || Moved;
}

bool CommStream::startMessages() {
  if (QueuedMessages.empty())
    return false;
  for (int Number : QueuedMessages) {
    Message &M = Messages[static_cast<size_t>(Number)];
    M.Number = M.Sends ? First->send(M.Peer, M.Kind, M.Data, M.Bytes)
                       : First->receive(M.Peer, M.Kind, M.Data, M.Bytes);
    M.TheState = Message::UnderWay;
    M.Begin = Clock::now();
    if (M.Sends) {
      const Topology &Topo = First->getTopology();
      bool IsLocal = Topo.getNode(M.Peer) == Topo.getNode(rank());
      CommStatistics::PerKind &K = Statistics.Kinds[Collective::SendMessage];
      (IsLocal ? K.LocalBytes : K.RemoteBytes) += M.Bytes;
    }
  }
  QueuedMessages.clear();
  MovedLast = Clock::now();
  return true;
}

bool CommStream::testMessage(Message &M) {
  if (M.TheState != Message::UnderWay || !First->test(M.Number))
    return false;
  M.TheState = Message::Done;
  MovedLast = Clock::now();
  --ActiveMessages;
  ++Status.Completed;
  CommStatistics::PerKind &K =
      Statistics.Kinds[M.Sends ? Collective::SendMessage
                               : Collective::ReceiveMessage];
  ++K.Count;
  if (M.Sends) {
    K.ThreadSeconds += toSeconds(MovedLast - M.Begin);
    Statistics.LinkSeconds = First->getLinkSeconds();
  }
  return true;
}

bool CommStream::testMessages() {
  bool Moved = false;
  for (Message &M : Messages)
    Moved |= testMessage(M);
  if (Moved)
    Progress.notify_all();
  return Moved;
}

void CommStream::drain() {
  std::unique_lock<std::mutex> Lock(Mutex);
  bool Failed = std::uncaught_exceptions() > 0;
  if ((Completed < Issued || ActiveMessages) && Failed)
    interruptAll();
  Progress.wait(Lock, [&] {
    return (Completed == Issued && !ActiveMessages) || HasEnded;
  });
  if (!Top && !Order)
    return;
  if (Failed || Failure) {
    // Its thread is idle, or has ended.
    Comm = First.get();
    Order = nullptr;
    Top.reset();
    Library.reset();
    OnDevice.clear();
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
  Result.Waiting |= DeviceWaits;
  const Operation &Oldest = Ring[static_cast<size_t>(Completed + 1) % Capacity];
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

Communicator &CommStream::getRanks(const Collective &C) const {
  if (C.Subgroup < 0)
    return *Comm;
  const auto &From = isOnDevice(C.Subgroup) ? OnDevice : Subgroups;
  return *From[static_cast<size_t>(C.Subgroup)];
}

void CommStream::executeCollective(const Collective &C) {
  if (C.TheKind == Collective::Exchange) {
    Library->waitFor(C.After);
    return Library->exchange(*C.Transfers);
  }
  auto *Values = static_cast<const float *>(C.Send);
  auto *Result = static_cast<float *>(C.Receive);
  Communicator &Ranks = getRanks(C);
  if (C.After)
    Ranks.waitFor(C.After);
  Communicator::Feedback Kept = {C.Residual};
  switch (C.TheKind) {
  case Collective::AllGather:
    return Ranks.allGather(C.Send, C.SendType, C.Receive, C.ReceiveType, C.Wire,
                           C.Bounds);
  case Collective::ReduceScatter:
    if (C.IsLossy)
      return Ranks.reduceScatter(Values, Result, C.Accumulate, C.Wire, C.Bounds,
                                 Kept);
    return Ranks.reduceScatter(Values, Result, C.Accumulate, C.Wire, C.Bounds);
  case Collective::AllReduce:
    if (C.IsLossy)
      return Ranks.allReduce(Values, Result, C.Wire, C.Bounds, Kept);
    return Ranks.allReduce(Values, Result, C.Wire, C.Bounds);
  case Collective::SendMessage:
  case Collective::ReceiveMessage:
  case Collective::Exchange:
    break; // no collective of a communicator
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
  // Without the messages that leave meanwhile.
  const CommStatistics::PerKind &Sent =
      Statistics.Kinds[Collective::SendMessage];
  auto GetLocal = [&] { return Comm->getLocalBytes() - Sent.LocalBytes; };
  auto GetRemote = [&] { return Comm->getRemoteBytes() - Sent.RemoteBytes; };
  int64_t Local = GetLocal(), Remote = GetRemote();
  double Processor = getThreadSeconds();
  executeCollective(Op.C);
  Statistics.ProcessorSeconds += getThreadSeconds() - Processor;
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
  Statistics.LinkSeconds = Comm->getLinkSeconds();
  if (Events)
    Events->record(Trace::Communication, getName(C.TheKind), Begin, End,
                   C.Bucket, LocalBytes + RemoteBytes);
}

//===----------------------------------------------------------------------===//
// Collectives that a device orders
//===----------------------------------------------------------------------===//

void CommStream::queue(Ticket T) {
  watch(T - NumPoints, /*OrWork=*/false);
  const Collective &C = Ring[static_cast<size_t>(T) % Capacity].C;
  double Processor = getThreadSeconds();
  const Communicator &Ranks = getRanks(C);
  int64_t Local = Ranks.getLocalBytes(), Remote = Ranks.getRemoteBytes();
  Order->setQueueing(true);
  executeCollective(C);
  Order->setQueueing(false);
  Flight &F = Flights[T % NumPoints];
  F = {};
  F.End = Order->recordPoint(static_cast<int>(T % NumPoints));
  F.LocalBytes = Ranks.getLocalBytes() - Local;
  if (C.Transfers)
    for (const IslandLibrary::Transfer &T : *C.Transfers)
      F.LocalBytes += T.SourceBytes;
  F.RemoteBytes = Ranks.getRemoteBytes() - Remote;
  Statistics.ProcessorSeconds += getThreadSeconds() - Processor;
  if (Completed + 1 == T)
    LookedAt = Clock::now();
}

/// Whether the oldest collective is complete now.
bool CommStream::look() {
  Ticket T = Completed + 1;
  const Collective &C = Ring[static_cast<size_t>(T) % Capacity].C;
  Flight &F = Flights[T % NumPoints];
  std::unique_lock<std::mutex> Lock(Mutex);
  void *Wait =
      Waits.empty() ? nullptr : Flights[Waits.front() % NumPoints].Wait;
  Lock.unlock();
  bool HasCome = Wait && Order->hasReached(Wait);
  if (!F.HasBegun && (!C.After || Order->hasReached(C.After))) {
    F.HasBegun = true;
    F.Begin = LookedAt;
  }
  bool IsComplete = Order->hasReached(F.End);
  Clock::time_point Now = Clock::now();
  Lock.lock();
  if (IsComplete)
    account(C, F.Begin, Now, F.LocalBytes, F.RemoteBytes);
  if (DeviceWaits)
    Statistics.Kinds[C.TheKind].ExposedSeconds += toSeconds(Now - LookedAt);
  else if (HasCome)
    WaitsSince = Now;
  bool Ends = HasCome && IsComplete && Waits.front() == T;
  if (Ends && Events)
    Events->record(Trace::Device, "wait", WaitsSince, Now, T);
  DeviceWaits = HasCome && !Ends;
  LookedAt = Now;
  if (IsComplete) {
    Waits.erase(std::remove(Waits.begin(), Waits.end(), T), Waits.end());
    complete();
  }
  return IsComplete;
}

void CommStream::watch(Ticket Until, bool OrWork) {
  if (Completed >= Until)
    return;
  double Processor = getThreadSeconds();
  Clock::time_point Since = Clock::now();
  auto MayLeave = [&] { return OrWork && HasWork; };
  while (Completed < Until && !MayLeave()) {
    if (look()) {
      Since = LookedAt;
      continue;
    }
    if (advanceMessages())
      continue;
    // The host's cores have little else to do; new work does not wait.
    auto Pause = std::clamp<Clock::duration>((LookedAt - Since) / 16,
                                             std::chrono::microseconds(20),
                                             std::chrono::microseconds(100));
    std::unique_lock<std::mutex> Lock(Mutex);
    Work.wait_for(Lock, Pause, MayLeave);
  }
  Statistics.ProcessorSeconds += getThreadSeconds() - Processor;
}

void CommStream::complete() {
  ++Completed;
  OldestSince = Clock::now();
  Status.Completed += !Ring[static_cast<size_t>(Completed) % Capacity].Function;
  Progress.notify_one();
}

/// How long to rest while the rank computes, and wants its core, if nothing has
/// moved for `Time`. What takes long, as a message of a pipeline does, need not
/// be noticed at once; others may wait for what takes a millisecond.
static Clock::duration getRest(Clock::duration Time) {
  using std::chrono::microseconds, std::chrono::milliseconds;
  Clock::duration Most =
      std::clamp<Clock::duration>(Time / 16, milliseconds(1), milliseconds(5));
  return std::clamp<Clock::duration>(Time / 4, microseconds(100), Most);
}

/// Whether the thread, as it sleeps now, will look at what has just been
/// started in time.
bool CommStream::looksSoon() const {
  return IsResting && RestsUntil <= Clock::now() + 5 * Patience &&
         RestsUntil - ShortPause <= First->getNextEvent();
}

/// Until there is something else to do. A message that is started wakes the
/// thread; one on its way needs it now and then, the less if the rank waits for
/// one, and moves them itself.
void CommStream::pollMessages(std::unique_lock<std::mutex> &Lock) {
  while (ActiveMessages && !HasWork && !Failure) {
    if (First->isInterrupted())
      fail("interrupted");
    bool Started = startMessages();
    if (testMessages() || Started)
      continue;
    Clock::time_point Now = Clock::now();
    int Descriptor = -1;
    if (Now < PollsHere + Patience) {
      RestsUntil = PollsHere + Patience;
    } else {
      Clock::duration Rest =
          Status.Waiting ? Patience : getRest(Now - MovedLast);
      RestsUntil = std::min(Now + Rest, First->getNextEvent());
      if (RestsUntil <= Now || !First->arm())
        continue;
      Descriptor = First->getDescriptor();
    }
    IsResting = true;
    Lock.unlock();
    restOn(RestsUntil - Now, Waker.getDescriptor(), Descriptor);
    Lock.lock();
    IsResting = false;
    Waker.silence();
  }
}

/// After what the thread is to see has been written with the lock.
void CommStream::wake() {
  Work.notify_one();
  if (IsResting)
    Waker.ring();
}

void CommStream::loop(const Factory &Make) {
  ShortSlices Slices;
  prctl(PR_SET_NAME, "poplar-comm");
  try {
    First = Make();
    First->setBackground([this] { return advanceMessages(); });
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
  Comm = First.get();
  Ready = true;
  Progress.notify_one();
  while (true) {
    Work.wait(Lock, [&] {
      return Closing || Failure || Completed < Issued || ActiveMessages;
    });
    if (Failure || (Completed == Issued && !ActiveMessages))
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
    const Operation &Op = Ring[static_cast<size_t>(Next) % Capacity];
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

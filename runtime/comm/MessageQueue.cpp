//===- MessageQueue.cpp - Messages between two ranks ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/MessageQueue.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// How late a poll of the rank may be before the communication thread polls
/// instead.
static constexpr std::chrono::microseconds Patience(100);

void MessageQueue::reserve(Communicator &Carrier, int Count) {
  Through = &Carrier;
  Messages.resize(static_cast<size_t>(Count));
  Queued.reserve(Messages.size());
}

int MessageQueue::add(bool Sends, int Peer, int Kind, void *Data,
                      int64_t Bytes) {
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
  Queued.push_back(Number);
  ++NumActive;
  return Number;
}

void MessageQueue::release(int Number, Clock::time_point Since) {
  Message &M = Messages[static_cast<size_t>(Number)];
  // A rank waits for what it receives because others compute.
  if (M.Sends)
    Statistics.Kinds[Collective::SendMessage].ExposedSeconds +=
        toSeconds(Clock::now() - Since);
  M.TheState = Message::Free;
}

bool MessageQueue::startQueued() {
  if (Queued.empty())
    return false;
  for (int Number : Queued) {
    Message &M = Messages[static_cast<size_t>(Number)];
    M.Number = M.Sends ? Through->send(M.Peer, M.Kind, M.Data, M.Bytes)
                       : Through->receive(M.Peer, M.Kind, M.Data, M.Bytes);
    M.TheState = Message::UnderWay;
    M.Begin = Clock::now();
    if (M.Sends) {
      const Topology &Topo = Through->getTopology();
      bool IsLocal = Topo.getNode(M.Peer) == Topo.getNode(Through->rank());
      CommStatistics::PerKind &K = Statistics.Kinds[Collective::SendMessage];
      (IsLocal ? K.LocalBytes : K.RemoteBytes) += M.Bytes;
    }
  }
  Queued.clear();
  MovedLast = Clock::now();
  return true;
}

bool MessageQueue::test(int Number) {
  return test(Messages[static_cast<size_t>(Number)]);
}

bool MessageQueue::test(Message &M) {
  if (M.TheState != Message::UnderWay || !Through->test(M.Number))
    return false;
  M.TheState = Message::Done;
  MovedLast = Clock::now();
  --NumActive;
  ++NumCompleted;
  CommStatistics::PerKind &K =
      Statistics.Kinds[M.Sends ? Collective::SendMessage
                               : Collective::ReceiveMessage];
  ++K.Count;
  if (M.Sends) {
    K.ThreadSeconds += toSeconds(MovedLast - M.Begin);
    Statistics.LinkSeconds = Through->getLinkSeconds();
  }
  return true;
}

bool MessageQueue::testAll() {
  bool Moved = false;
  for (Message &M : Messages)
    Moved |= test(M);
  if (Moved)
    Progress.notify_all();
  return Moved;
}

bool MessageQueue::advance() {
  bool Started = startQueued();
  return testAll() || Started;
}

void MessageQueue::requireNoInterrupt() const {
  if (Through->isInterrupted())
    fail("interrupted");
}

void MessageQueue::pollHere(std::unique_lock<std::mutex> &Lock, int Number,
                            Pause &P) {
  requireNoInterrupt();
  startQueued();
  // Which moves all messages: a test of each would take longer.
  if (test(Number))
    return;
  Clock::duration Time = P.next(Through->getNextEvent());
  if (Time <= Clock::duration::zero() || !Through->arm())
    return;
  PollsHere = Clock::now() + Time;
  int Descriptor = Through->getDescriptor();
  Lock.unlock();
  restOn(Time, Descriptor, -1);
  Lock.lock();
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

void MessageQueue::poll(std::unique_lock<std::mutex> &Lock, bool RankWaits) {
  requireNoInterrupt();
  if (advance())
    return;
  Clock::time_point Now = Clock::now();
  int Descriptor = -1;
  if (Now < PollsHere + Patience) {
    RestsUntil = PollsHere + Patience;
  } else {
    Clock::duration Rest = RankWaits ? Patience : getRest(Now - MovedLast);
    RestsUntil = std::min(Now + Rest, Through->getNextEvent());
    if (RestsUntil <= Now || !Through->arm())
      return;
    Descriptor = Through->getDescriptor();
  }
  IsResting = true;
  Lock.unlock();
  restOn(RestsUntil - Now, Waker.getDescriptor(), Descriptor);
  Lock.lock();
  IsResting = false;
  Waker.silence();
}

bool MessageQueue::looksSoon() const {
  return IsResting && RestsUntil <= Clock::now() + 5 * Patience &&
         RestsUntil - ShortPause <= Through->getNextEvent();
}

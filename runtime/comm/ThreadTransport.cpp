//===- ThreadTransport.cpp - Ranks that are threads -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/ThreadTransport.h"
#include "support/Error.h"

#include <algorithm>
#include <cstring>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace poplar::runtime::comm {

/// A send completes when the receiver has copied it, so an algorithm that would
/// deadlock without buffering deadlocks here.
class ThreadTransport : public Transport {
public:
  ThreadTransport(ThreadWorld &World, int Rank) : World(World), Rank(Rank) {}

  const char *getName() const override { return "threads"; }
  int rank() const override { return Rank; }
  int size() const override { return World.Size; }
  std::vector<int> getNodes() const override { return World.Nodes; }
  Request receive(int Peer, int Tag, void *Data, size_t Bytes) override;
  bool test(Request R) override;
  void abort(const std::string &Message) override;

protected:
  void doReserve(int Requests) override;
  Request doSend(int Peer, int Tag, const void *Data, size_t Bytes) override;

private:
  struct Slot {
    enum { Free, Sending, Receiving } Kind = Free;
    int Peer = 0, Tag = 0;
    void *Data = nullptr;
    size_t Bytes = 0;
    bool Done = false; // guarded by the mutex of the receiver's mailbox
  };

  Request allocate(int Kind, int Peer);
  void matchReceives();

  ThreadWorld &World;
  int Rank;
  std::vector<Slot> Slots;
  std::vector<Request> FreeSlots;
  /// Receives without their message, in the order in which they were posted.
  std::vector<Request> Posted;
};

} // namespace poplar::runtime::comm

ThreadWorld::ThreadWorld(int Size, std::vector<int> TheNodes)
    : Size(Size), Nodes(std::move(TheNodes)), Mailboxes(Size) {
  if (Nodes.empty())
    Nodes.assign(Size, 0);
}

std::unique_ptr<Transport> ThreadWorld::makeTransport(int Rank) {
  return std::make_unique<ThreadTransport>(*this, Rank);
}

void ThreadTransport::doReserve(int Requests) {
  Slots.resize(Requests);
  FreeSlots.clear();
  for (Request R = Requests; R-- > 0;)
    FreeSlots.push_back(R);
  Posted.reserve(Requests);
  ThreadWorld::Mailbox &Own = World.Mailboxes[Rank];
  std::lock_guard<std::mutex> Lock(Own.Mutex);
  Own.Messages.reserve(static_cast<size_t>(Requests) * World.Size);
}

Transport::Request ThreadTransport::allocate(int Kind, int Peer) {
  if (FreeSlots.empty())
    fail("rank ", Rank, ": too many messages under way");
  Request R = FreeSlots.back();
  FreeSlots.pop_back();
  Slots[R].Kind = static_cast<decltype(Slot::Kind)>(Kind);
  Slots[R].Peer = Peer;
  Slots[R].Done = false;
  return R;
}

Transport::Request ThreadTransport::doSend(int Peer, int Tag, const void *Data,
                                           size_t Bytes) {
  Request R = allocate(Slot::Sending, Peer);
  ThreadWorld::Mailbox &Box = World.Mailboxes[Peer];
  std::lock_guard<std::mutex> Lock(Box.Mutex);
  Box.Messages.push_back({Rank, Tag, Data, Bytes, &Slots[R].Done});
  return R;
}

Transport::Request ThreadTransport::receive(int Peer, int Tag, void *Data,
                                            size_t Bytes) {
  Request R = allocate(Slot::Receiving, Peer);
  Slots[R].Tag = Tag;
  Slots[R].Data = Data;
  Slots[R].Bytes = Bytes;
  Posted.push_back(R);
  return R;
}

void ThreadTransport::matchReceives() {
  std::vector<ThreadWorld::Message> &Messages = World.Mailboxes[Rank].Messages;
  auto Match = [&](Request R) {
    Slot &S = Slots[R];
    auto It = std::find_if(Messages.begin(), Messages.end(), [&](auto &M) {
      return M.Source == S.Peer && M.Tag == S.Tag;
    });
    if (It == Messages.end())
      return false;
    if (It->Bytes != S.Bytes)
      fail("rank ", Rank, " expected ", S.Bytes, " bytes from rank ", S.Peer,
           ", which sent ", It->Bytes);
    std::memcpy(S.Data, It->Data, S.Bytes);
    *It->Done = S.Done = true;
    Messages.erase(It);
    return true;
  };
  Posted.erase(std::remove_if(Posted.begin(), Posted.end(), Match),
               Posted.end());
}

bool ThreadTransport::test(Request R) {
  if (World.Aborted) {
    std::lock_guard<std::mutex> Lock(World.AbortMutex);
    throw Error(World.AbortMessage);
  }
  if (R == None)
    return true;
  Slot &S = Slots[R];
  ThreadWorld::Mailbox &Box =
      World.Mailboxes[S.Kind == Slot::Sending ? S.Peer : Rank];
  {
    std::lock_guard<std::mutex> Lock(Box.Mutex);
    if (S.Kind == Slot::Receiving && !S.Done)
      matchReceives();
    if (!S.Done)
      return false;
  }
  S.Kind = Slot::Free;
  FreeSlots.push_back(R);
  return true;
}

void ThreadTransport::abort(const std::string &Message) {
  World.abort(Message);
}

void ThreadWorld::abort(const std::string &Message) {
  std::lock_guard<std::mutex> Lock(AbortMutex);
  if (!Aborted)
    AbortMessage = Message;
  Aborted = true;
}

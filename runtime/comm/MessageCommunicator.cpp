//===- MessageCommunicator.cpp - Collectives by messages ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/MessageCommunicator.h"
#include "comm/Pause.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// Values of a rank in one exchange of the small reductions.
static constexpr int64_t ExchangeCount = 64;
static constexpr int64_t Alignment = 64;

/// Each rank is a node of its own.
static Topology makeApart(int Size) {
  std::vector<int> Apart(Size);
  std::iota(Apart.begin(), Apart.end(), 0);
  return Topology(Apart);
}

static Topology makeTree(const Transport &Messages, const MessageOptions &O) {
  Topology Topo(Messages.getNodes());
  if (O.TwoLevel && Topo.isTwoLevel())
    return Topo;
  return makeApart(Messages.size());
}

MessageCommunicator::MessageCommunicator(std::unique_ptr<Transport> TheMessages,
                                         const MessageOptions &O)
    : Communicator(TheMessages->rank(), Topology(TheMessages->getNodes())),
      Messages(std::move(TheMessages)), Options(O),
      Tree(makeTree(*Messages, O)), Gathering(*Messages, Tree),
      Reducing(*Messages, Tree), OwnScratch(nullptr, &std::free),
      Exchanged(ExchangeCount * size()), Bounds(size() + 1) {
  reserve();
  int64_t Bytes = getScratchBytes(size());
  OwnScratch.reset(static_cast<char *>(std::aligned_alloc(Alignment, Bytes)));
  if (!OwnScratch)
    throw std::bad_alloc();
  setScratch(OwnScratch.get(), Bytes);
}

std::vector<const Topology *> MessageCommunicator::listWays() const {
  std::vector<const Topology *> Ways = {&Tree};
  for (const std::optional<Topology> *Other : {&Islands, &Sites})
    if (*Other)
      Ways.push_back(&**Other);
  return Ways;
}

void MessageCommunicator::reserve() {
  // A group of some of the ranks may need as many as ranks that are all apart.
  Topology Apart = makeApart(size());
  int Requests = 0;
  std::vector<const Topology *> Ways = listWays();
  Ways.push_back(&Apart);
  for (const Topology *Way : Ways)
    Requests = std::max({Requests, AllGather::countRequests(*Way),
                         ReduceScatter::countSlots(*Way)});
  Messages->reserve(Requests + static_cast<int>(Pending.size()) * MaxParts);
}

void MessageCommunicator::reserveMessages(int Count) {
  // A rank that is still in another call has messages under way.
  barrier();
  Pending.resize(static_cast<size_t>(Count));
  reserve();
}

void MessageCommunicator::useIslands(const Topology &TheIslands) {
  // A rank that is still in another call has messages under way.
  barrier();
  Islands = TheIslands;
  IslandGathering.emplace(*Messages, *Islands);
  IslandReducing.emplace(*Messages, *Islands);
  reserve();
  setScratch(Scratch, ScratchBytes);
}

void MessageCommunicator::useSites(const Topology &TheSites) {
  barrier();
  Sites = TheSites;
  SiteReducing.emplace(*Messages, *Sites);
  reserve();
  setScratch(Scratch, ScratchBytes);
}

const Topology &MessageCommunicator::getSites() const {
  return Sites ? *Sites : Topo;
}

void MessageCommunicator::setScratch(char *Memory, int64_t Bytes) {
  int NumSlots = 0;
  for (const Topology *Way : listWays())
    NumSlots = std::max({NumSlots, AllGather::countSlots(*Way),
                         ReduceScatter::countSlots(*Way)});
  Scratch = Memory;
  ScratchBytes = Bytes;
  SlotBytes = Bytes / NumSlots / Alignment * Alignment;
  if (SlotBytes == 0)
    fail("the communicator needs ", NumSlots * Alignment,
         " bytes of scratch, and got ", Bytes);
}

void MessageCommunicator::useScratch(void *Memory, int64_t Bytes) {
  // Unequal sizes would cut slices into unequal chunks.
  int64_t Limits[] = {Bytes, -Bytes};
  allReduceMax(Limits, 2);
  if (Limits[0] != -Limits[1])
    fail("ranks give the communicator between ", -Limits[1], " and ", Limits[0],
         " bytes of scratch; it must be the same on all");
  if (reinterpret_cast<uintptr_t>(Memory) % Alignment != 0)
    fail("the scratch of the communicator is not ", Alignment, "-byte aligned");
  setScratch(static_cast<char *>(Memory), Bytes);
  OwnScratch.reset();
}

int64_t MessageCommunicator::getChunkElements(Type Wire) const {
  // A sum is kept in f32 whatever the wire carries.
  int64_t Fit = std::min(SlotBytes / std::max<int64_t>(4, getBytes(Wire)),
                         Options.MaxElements);
  bool InBlocks = Wire == Type::I8 && Fit > BlockElements;
  return InBlocks ? Fit / BlockElements * BlockElements : Fit;
}

template <typename Machine> void MessageCommunicator::finish(Machine &M) {
  Pause P;
  while (!M.isDone()) {
    if (Interrupted)
      fail("interrupted");
    bool Moved = M.advance();
    // Others may wait for a message before they come to this collective.
    if (Background)
      Moved |= Background();
    if (Moved)
      P = Pause();
    else
      Messages->rest(P.next(Messages->getNextEvent()));
  }
}

void MessageCommunicator::gather(AllGather &Machine, const void *Shard,
                                 Type ShardType, void *Full, Type FullType,
                                 Type Wire, const int64_t *TheBounds) {
  Machine.start({static_cast<const char *>(Shard), ShardType,
                 static_cast<char *>(Full), FullType, Wire, TheBounds,
                 getChunkElements(Wire), Scratch, SlotBytes});
  finish(Machine);
}

void MessageCommunicator::allGather(const void *Shard, Type ShardType,
                                    void *Full, Type FullType, Type Wire,
                                    const int64_t *TheBounds) {
  gather(IslandGathering ? *IslandGathering : Gathering, Shard, ShardType, Full,
         FullType, Wire, TheBounds);
}

void MessageCommunicator::reduceScatter(const float *Full, float *Shard,
                                        bool Accumulate, Type Wire,
                                        const int64_t *TheBounds) {
  ReduceScatter &Machine = IslandReducing ? *IslandReducing : Reducing;
  Machine.start({Full, Shard, Accumulate, Wire, TheBounds,
                 getChunkElements(Wire), Scratch, SlotBytes});
  finish(Machine);
}

void MessageCommunicator::reduceScatter(const float *Full, float *Shard,
                                        bool Accumulate, Type Wire,
                                        const int64_t *TheBounds,
                                        const Feedback &Kept) {
  if (!SiteReducing)
    fail("lossy sums need to know which links are slow");
  SiteReducing->start({Full, Shard, Accumulate, Wire, TheBounds,
                       getChunkElements(Wire), Scratch, SlotBytes,
                       /*Feedback=*/true, Kept.Residual});
  finish(*SiteReducing);
}

template <typename T, typename Function>
void MessageCommunicator::reduceInOrder(T *Values, int64_t Count,
                                        Function Combine) {
  static_assert(sizeof(T) == sizeof(int64_t), "exchanged as raw words");
  for (int64_t Begin = 0; Begin < Count; Begin += ExchangeCount) {
    int64_t Part = std::min(ExchangeCount, Count - Begin);
    for (int R = 0; R <= size(); ++R)
      Bounds[R] = R * Part;
    gather(Gathering, Values + Begin, Type::Raw64, Exchanged.data(),
           Type::Raw64, Type::Raw64, Bounds.data());
    for (int64_t I = 0; I < Part; ++I) {
      T Result, Next;
      std::memcpy(&Result, &Exchanged[I], sizeof(T));
      for (int R = 1; R < size(); ++R) {
        std::memcpy(&Next, &Exchanged[R * Part + I], sizeof(T));
        Result = Combine(Result, Next);
      }
      Values[Begin + I] = Result;
    }
  }
}

void MessageCommunicator::allReduceSum(int64_t *Values, int64_t Count) {
  reduceInOrder(Values, Count, [](int64_t A, int64_t B) { return A + B; });
}

void MessageCommunicator::allReduceMax(int64_t *Values, int64_t Count) {
  reduceInOrder(Values, Count,
                [](int64_t A, int64_t B) { return std::max(A, B); });
}

void MessageCommunicator::allReduceSum(double *Values, int64_t Count) {
  reduceInOrder(Values, Count, [](double A, double B) { return A + B; });
}

void MessageCommunicator::broadcast(void *Data, int64_t Bytes, int Root) {
  for (int R = 0; R <= size(); ++R)
    Bounds[R] = R <= Root ? 0 : Bytes;
  gather(Gathering, Data, Type::Raw8, Data, Type::Raw8, Type::Raw8,
         Bounds.data());
}

namespace {

/// The root receives from one rank after the other, in windows; the others
/// send.
class Gather {
public:
  Gather(Transport &Messages, const char *Shard, char *Full, Type T,
         const int64_t *Bounds, int Root, int64_t ChunkElements)
      : Messages(Messages), Shard(Shard), Full(Full), Bytes(getBytes(T)),
        Bounds(Bounds), Root(Root), ChunkElements(ChunkElements) {
    bool IsRoot = Messages.rank() == Root;
    int64_t Own = Bounds[Messages.rank() + 1] - Bounds[Messages.rank()];
    if (IsRoot && Shard != getSlice(Root))
      std::memcpy(getSlice(Root), Shard, static_cast<size_t>(Own * Bytes));
    Peer = IsRoot ? 0 : Messages.rank();
  }

  bool isDone() const {
    return Finished == Posted &&
           (Messages.rank() == Root ? Peer == Messages.size() : isPosted());
  }

  bool advance() {
    bool Moved = false;
    for (; Finished < Posted && Messages.test(Windows[Finished % Depth]);
         ++Finished)
      Moved = true;
    for (; !isPosted() && Posted - Finished < Depth; ++Posted, Moved = true)
      Windows[Posted % Depth] = post();
    if (Messages.rank() == Root && Peer < Messages.size() && isPosted()) {
      ++Peer;
      Begin = 0;
      Moved = true;
    }
    return Moved;
  }

private:
  char *getSlice(int Rank) const { return Full + Bounds[Rank] * Bytes; }
  /// Whether all messages from the current peer have a window.
  bool isPosted() const {
    return Peer == Messages.size() || (Peer == Root) ||
           Begin == Bounds[Peer + 1] - Bounds[Peer];
  }
  Transport::Request post() {
    int64_t Elements =
        std::min(ChunkElements, Bounds[Peer + 1] - Bounds[Peer] - Begin);
    int64_t Offset = Begin * Bytes;
    auto Size = static_cast<size_t>(Elements * Bytes);
    Begin += Elements;
    if (Messages.rank() == Root)
      return Messages.receive(Peer, Peer, getSlice(Peer) + Offset, Size);
    return Messages.send(Root, Peer, Shard + Offset, Size);
  }

  Transport &Messages;
  const char *Shard;
  char *Full;
  int64_t Bytes;
  const int64_t *Bounds;
  int Root;
  int64_t ChunkElements;
  int Peer;
  int64_t Begin = 0, Posted = 0, Finished = 0;
  Transport::Request Windows[Depth];
};

} // namespace

void MessageCommunicator::gather(const void *Shard, void *Full, Type T,
                                 const int64_t *TheBounds, int Root) {
  Gather Machine(*Messages, static_cast<const char *>(Shard),
                 static_cast<char *>(Full), T, TheBounds, Root,
                 getChunkElements(T));
  finish(Machine);
}

//===----------------------------------------------------------------------===//
// Messages between two ranks
//===----------------------------------------------------------------------===//

int MessageCommunicator::startMessage(const PendingMessage &New) {
  auto Place = std::find_if(Pending.begin(), Pending.end(),
                            [](const PendingMessage &M) { return !M.IsBusy; });
  if (Place == Pending.end())
    fail("more than ", Pending.size(), " messages are under way");
  *Place = New;
  Place->IsBusy = true;
  Place->Number = ++NumMessages;
  postParts(*Place);
  return static_cast<int>(Place - Pending.begin());
}

int MessageCommunicator::send(int Peer, int Kind, const void *Data,
                              int64_t Bytes) {
  PendingMessage M;
  M.Sends = true;
  M.Peer = Peer;
  M.Kind = Kind;
  M.Data = static_cast<char *>(const_cast<void *>(Data));
  M.Bytes = Bytes;
  return startMessage(M);
}

int MessageCommunicator::receive(int Peer, int Kind, void *Data,
                                 int64_t Bytes) {
  PendingMessage M;
  M.Peer = Peer;
  M.Kind = Kind;
  M.Data = static_cast<char *>(Data);
  M.Bytes = Bytes;
  return startMessage(M);
}

/// Parts of messages of a kind are told apart by their order alone.
void MessageCommunicator::postParts(PendingMessage &M) {
  for (const PendingMessage &Other : Pending)
    if (Other.IsBusy && Other.Number < M.Number && Other.Sends == M.Sends &&
        Other.Peer == M.Peer && Other.Kind == M.Kind &&
        Other.Posted < Other.Bytes)
      return;
  for (; M.Posted < M.Bytes && M.Count < MaxParts; ++M.Count) {
    auto Size =
        static_cast<size_t>(std::min(Options.MaxElements, M.Bytes - M.Posted));
    char *Part = M.Data + M.Posted;
    M.Parts[M.Count] =
        M.Sends ? Messages->send(M.Peer, size() + M.Kind, Part, Size)
                : Messages->receive(M.Peer, size() + M.Kind, Part, Size);
    M.Posted += static_cast<int64_t>(Size);
  }
}

bool MessageCommunicator::test(int Message) {
  PendingMessage &M = Pending[static_cast<size_t>(Message)];
  for (int I = M.Count; I-- > 0;)
    if (Messages->test(M.Parts[I]))
      M.Parts[I] = M.Parts[--M.Count];
  postParts(M);
  M.IsBusy = M.Count > 0 || M.Posted < M.Bytes;
  return !M.IsBusy;
}

namespace {

/// Some ranks of another transport, renumbered. Between any two ranks, the
/// collectives of all groups that both are in come in one order, so they need
/// no tags of their own.
class SubTransport : public Transport {
public:
  SubTransport(Transport &All, const std::vector<int> &Ranks)
      : All(All), Ranks(Ranks) {
    auto Own = std::find(Ranks.begin(), Ranks.end(), All.rank());
    if (Own == Ranks.end())
      fail("rank ", All.rank(),
           " is not in the group in which it communicates");
    Number = static_cast<int>(Own - Ranks.begin());
  }

  const char *getName() const override { return All.getName(); }
  int rank() const override { return Number; }
  int size() const override { return static_cast<int>(Ranks.size()); }
  std::vector<int> getNodes() const override {
    std::vector<int> Nodes, Whole = All.getNodes();
    for (int R : Ranks)
      Nodes.push_back(Whole[R]);
    return Nodes;
  }
  Request receive(int Peer, int Tag, void *Data, size_t Bytes) override {
    return All.receive(Ranks[Peer], Tag, Data, Bytes);
  }
  bool test(Request R) override { return All.test(R); }
  Clock::time_point getNextEvent() const override { return All.getNextEvent(); }
  int getDescriptor() const override { return All.getDescriptor(); }
  bool arm() override { return All.arm(); }
  void abort(const std::string &Message) override { All.abort(Message); }

protected:
  void doReserve(int) override {} // whose messages they are has done so
  Request doSend(int Peer, int Tag, const void *Data, size_t Bytes) override {
    return All.send(Ranks[Peer], Tag, Data, Bytes);
  }

private:
  Transport &All;
  std::vector<int> Ranks;
  int Number;
};

} // namespace

std::unique_ptr<Communicator>
MessageCommunicator::makeSubgroup(const std::vector<int> &Ranks) {
  auto Result = std::make_unique<MessageCommunicator>(
      std::make_unique<SubTransport>(*Messages, Ranks), Options);
  Result->Background = Background;
  return Result;
}

int64_t MessageCommunicator::getLocalBytes() const {
  int64_t Bytes = 0;
  for (int R = 0; R < size(); ++R)
    if (Topo.getNode(R) == Topo.getNode(Rank))
      Bytes += Messages->getSentBytes(R);
  return Bytes;
}

int64_t MessageCommunicator::getRemoteBytes() const {
  int64_t Bytes = 0;
  for (int R = 0; R < size(); ++R)
    if (Topo.getNode(R) != Topo.getNode(Rank))
      Bytes += Messages->getSentBytes(R);
  return Bytes;
}

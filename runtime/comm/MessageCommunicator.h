//===- MessageCommunicator.h - Collectives by messages ----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A communicator over any transport. All algorithms are here and in the two
// state machines, so that every backend computes the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_MESSAGECOMMUNICATOR_H
#define POPLAR_RUNTIME_COMM_MESSAGECOMMUNICATOR_H

#include "comm/AllGather.h"
#include "comm/Communicator.h"
#include "comm/ReduceScatter.h"

#include <cstdlib>
#include <memory>
#include <optional>

namespace poplar::runtime::comm {

struct MessageOptions {
  /// No message has more elements; libraries count in 32 bits.
  int64_t MaxElements = int64_t(1) << 30;
  /// Cross between nodes once per node, not once per rank.
  bool TwoLevel = true;
};

class MessageCommunicator : public Communicator {
public:
  MessageCommunicator(std::unique_ptr<Transport> Messages,
                      const MessageOptions &O = {});

  /// Lets allGather and reduceScatter go by these islands instead of nodes. In
  /// an island with a library, a rank receives only the slices that it leads,
  /// and contributes the island's sums of these; IslandCommunicator does the
  /// rest. All other data reach all ranks, as before. Collective.
  void useIslands(const Topology &TheIslands) override;

  const char *getBackend() const override { return Messages->getName(); }
  const char *getLibrary() const override { return Messages->getLibrary(); }
  const Topology &getSumOrder() const override {
    return Islands ? *Islands : Topo;
  }
  bool addsInOrder() const override { return !Islands; }
  void allGather(const void *Shard, Type ShardType, void *Full, Type FullType,
                 Type Wire, const int64_t *Bounds) override;
  void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                     Type Wire, const int64_t *Bounds) override;
  void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                     Type Wire, const int64_t *Bounds,
                     const Feedback &Kept) override;
  void useSites(const Topology &TheSites) override;
  const Topology &getSites() const override;
  void allReduceSum(int64_t *Values, int64_t Count) override;
  void allReduceMax(int64_t *Values, int64_t Count) override;
  void allReduceSum(double *Values, int64_t Count) override;
  void broadcast(void *Data, int64_t Bytes, int Root) override;
  void gather(const void *Shard, void *Full, Type T, const int64_t *Bounds,
              int Root) override;
  int send(int Peer, int Kind, const void *Data, int64_t Bytes) override;
  int receive(int Peer, int Kind, void *Data, int64_t Bytes) override;
  void reserveMessages(int Count) override;
  bool test(int Message) override;
  Clock::time_point getNextEvent() const override {
    return Messages->getNextEvent();
  }
  int getDescriptor() const override { return Messages->getDescriptor(); }
  bool arm() override { return Messages->arm(); }
  std::unique_ptr<Communicator>
  makeSubgroup(const std::vector<int> &Ranks) override;
  void useScratch(void *Memory, int64_t Bytes) override;
  int64_t getLocalBytes() const override;
  int64_t getRemoteBytes() const override;
  double getLinkSeconds() const override { return Messages->getLinkSeconds(); }
  HeartbeatSockets takeSockets() override { return Messages->takeSockets(); }
  void close() override { Messages->close(); }
  void abort(const std::string &Message) override { Messages->abort(Message); }

private:
  /// The most parts of one message in flight.
  static constexpr int MaxParts = 4;
  struct PendingMessage {
    bool IsBusy = false, Sends = false;
    int Peer = 0, Kind = 0;
    char *Data = nullptr;
    int64_t Bytes = 0, Posted = 0, Number = 0;
    int Count = 0; // parts that are under way
    Transport::Request Parts[MaxParts];
  };
  int startMessage(const PendingMessage &New);
  void postParts(PendingMessage &M);
  void setScratch(char *Memory, int64_t Bytes);
  void reserve();
  int64_t getChunkElements(Type Wire) const;
  template <typename Machine> void finish(Machine &M);
  void gather(AllGather &Machine, const void *Shard, Type ShardType, void *Full,
              Type FullType, Type Wire, const int64_t *Bounds);
  template <typename T, typename Function>
  void reduceInOrder(T *Values, int64_t Count, Function Combine);

  std::unique_ptr<Transport> Messages;
  MessageOptions Options;
  /// Each rank a node of its own where that is as good.
  Topology Tree;
  AllGather Gathering;
  ReduceScatter Reducing;
  std::optional<Topology> Islands;
  /// Collectives by islands, once there are any.
  std::optional<AllGather> IslandGathering;
  std::optional<ReduceScatter> IslandReducing;
  /// Sums by sites, if they are used.
  std::optional<Topology> Sites;
  std::optional<ReduceScatter> SiteReducing;
  /// The ways of all collectives.
  std::vector<const Topology *> listWays() const;
  /// The scratch, cut into slots for chunks.
  std::unique_ptr<char, decltype(&std::free)> OwnScratch;
  char *Scratch = nullptr;
  int64_t ScratchBytes = 0, SlotBytes = 0;
  /// Values of all ranks, and the bounds to exchange them.
  std::vector<int64_t> Exchanged, Bounds;
  std::vector<PendingMessage> Pending;
  int64_t NumMessages = 0;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_MESSAGECOMMUNICATOR_H

//===- IslandCommunicator.h - Islands, and what joins them ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The composite communicator, as a rank of an island with a library sees it:
// collectives of its device's memory go by the library inside the island, and
// by messages of the hosts' memory between islands. Ranks without a library are
// islands, too, of which all messages are the MessageCommunicator's; it also
// does everything that is not about a device's memory.
//
//   all-gather      owner --library--> its island
//                   owner --message--> leaders of other islands
//                                      --library--> their islands
//   reduce-scatter  ranks --library--> island's leader for the slice
//                         --message--> owner
//
// A leader passes on what goes to its island once, whatever the island's size.
//
// Sums. An island's ranks are added in f32, in an order that is the library's;
// the sum is rounded to the wire type and added to those of the other islands,
// in f32 and in the order of their first ranks. Every slice is added up by one
// rank, or by one all-reduce of the library's, and what others get are copies:
// all ranks hold the same bits.
//
// Half precision on the wire narrows what is gathered. Sums inside an island
// cross as f32, rounded to the wire type before.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_ISLANDCOMMUNICATOR_H
#define POPLAR_RUNTIME_COMM_ISLANDCOMMUNICATOR_H

#include "comm/Communicator.h"
#include "comm/IslandLibrary.h"

#include <memory>

namespace poplar::runtime::comm {

class IslandCommunicator : public Communicator, private DeviceOrder {
public:
  /// `Control` knows the islands, see MessageCommunicator::useIslands, and
  /// outlives this. `Uniform`: the ranks of the island always have the same
  /// types of memory, which spares them a copy.
  IslandCommunicator(Communicator &Control, const Topology &Islands,
                     std::unique_ptr<IslandLibrary> Library, bool Uniform);
  ~IslandCommunicator() override;

  const char *getBackend() const override { return Name.c_str(); }
  const Topology &getSumOrder() const override { return Islands; }
  bool addsInOrder() const override { return false; }
  void waitFor(void *Point) override { Library->waitFor(Point); }
  /// Several islands are joined by what the host sends.
  DeviceOrder *getDeviceOrder() override { return isAlone() ? this : nullptr; }

  /// Collectives of the device's memory.
  void allGather(const void *Shard, Type ShardType, void *Full, Type FullType,
                 Type Wire, const int64_t *Bounds) override;
  void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                     Type Wire, const int64_t *Bounds) override;
  void allReduce(const float *Source, float *Result, Type Wire,
                 const int64_t *Bounds) override;

  /// Collectives of the host's memory.
  void allReduceSum(int64_t *Values, int64_t Count) override {
    Control.allReduceSum(Values, Count);
  }
  void allReduceMax(int64_t *Values, int64_t Count) override {
    Control.allReduceMax(Values, Count);
  }
  void allReduceSum(double *Values, int64_t Count) override {
    Control.allReduceSum(Values, Count);
  }
  void broadcast(void *Data, int64_t Bytes, int Root) override {
    Control.broadcast(Data, Bytes, Root);
  }
  void gather(const void *Shard, void *Full, Type T, const int64_t *Bounds,
              int Root) override {
    Control.gather(Shard, Full, T, Bounds, Root);
  }
  void useScratch(void *Memory, int64_t Bytes) override {
    Control.useScratch(Memory, Bytes);
  }

  /// Bytes given to the library count as sent once to ranks of the own node.
  int64_t getLocalBytes() const override {
    return Control.getLocalBytes() + LibraryBytes;
  }
  int64_t getRemoteBytes() const override { return Control.getRemoteBytes(); }
  double getLinkSeconds() const override { return Control.getLinkSeconds(); }
  /// Closes or aborts the island; `Control` stays.
  void close() override { Library->close(); }
  void abort(const std::string &Message) override { Control.abort(Message); }
  void interrupt() override;

private:
  void setQueueing(bool On) override { Queueing = On; }
  void *recordPoint(int Number) override {
    return Library->recordPoint(Number);
  }
  bool hasReached(void *Point) override { return Library->hasReached(Point); }
  /// At the end of a collective.
  void finish() {
    if (!Queueing)
      Library->finish();
  }

  bool isAlone() const { return Islands.numNodes() == 1; }
  bool isOwn(int Slice) const {
    return Islands.getNode(Slice) == Islands.getNode(Rank);
  }
  /// The rank of the island that leads a slice.
  int getRoot(int Slice) const {
    return Islands.getLocalRank(
        Islands.getLeader(Islands.getNode(Rank), Slice));
  }
  char *getStaging(int64_t Bytes);
  struct Gathering;
  void spread(const Gathering &G, bool Own);
  void spreadInRounds(const Gathering &G);

  Communicator &Control;
  Topology Islands;
  std::unique_ptr<IslandLibrary> Library;
  bool Uniform, Queueing = false;
  std::string Name;
  int64_t LibraryBytes = 0;
  /// The pieces of the collective under way; kept, as nothing is allocated in a
  /// step. The slices that pieces are of, and where what arrives in the scratch
  /// goes.
  std::vector<IslandLibrary::Piece> Pieces;
  std::vector<int> Slices;
  std::vector<char *> Results;
  /// Memory of the host: what goes to other islands, and comes from them.
  /// Addressed as the whole array, but touched, and hence there, only in slices
  /// that this rank leads.
  char *Staging = nullptr;
  int64_t StagingBytes = 0;
};

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_ISLANDCOMMUNICATOR_H

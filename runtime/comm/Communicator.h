//===- Communicator.h - Collectives of a group of ranks ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every call but abort() and interrupt() is collective: all ranks of the group
// make the same calls in the same order, from one thread each. A communicator
// never blocks in the kernel or spins: it polls, and sleeps between polls.
//
// Slices. A flat array of Bounds[size] elements is cut at Bounds[0] = 0 <=
// Bounds[1] <= ...: rank r owns [Bounds[r], Bounds[r + 1]), its shard, which
// may be empty. Bounds and wire types are the same on all ranks; the types of
// memory need not be.
//
// Sums. A contribution is rounded to the wire type, the receiver's own, too,
// and added in f32 in the order of the ranks; where several of several nodes'
// ranks share a node, first inside each node, and the node's sum is rounded to
// the wire type in turn. So a sum depends neither on timing nor on the bounds.
//
// Errors are poplar::runtime::Error. After one, only abort() is of use.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_COMM_COMMUNICATOR_H
#define POPLAR_RUNTIME_COMM_COMMUNICATOR_H

#include "comm/HeartbeatSockets.h"
#include "comm/Topology.h"
#include "comm/Wire.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace poplar::runtime::comm {

/// The order of a communicator whose collectives of a device's memory are all
/// queued on the device, which can order them and its own work without the
/// host. Points are the library's, or Device::recordPoint's.
class DeviceOrder {
public:
  virtual ~DeviceOrder() = default;
  /// Whether collectives return once they are queued; they return once they are
  /// complete otherwise, as at first.
  virtual void setQueueing(bool On) = 0;
  /// A point behind all collectives so far, for Device::waitFor. `Number`, of
  /// at most NumPoints, may be given again once nobody waits for it any more.
  virtual void *recordPoint(int Number) = 0;
  static constexpr int NumPoints = 64;
  /// Whether the device has come to a point. Throws an Error if the library
  /// reports one of whatever is under way, or if interrupted.
  virtual bool hasReached(void *Point) = 0;
};

class Communicator {
public:
  explicit Communicator(int Rank, Topology Topo)
      : Rank(Rank), Topo(std::move(Topo)) {}
  virtual ~Communicator() = default;

  /// self, threads, mpi, tcp, or the library of an island.
  virtual const char *getBackend() const = 0;
  /// What carries messages, with its version.
  virtual const char *getLibrary() const { return getBackend(); }
  int rank() const { return Rank; }
  int size() const { return Topo.size(); }
  int localRank() const { return Topo.getLocalRank(Rank); }
  int localSize() const {
    return static_cast<int>(Topo.getMembers(Topo.getNode(Rank)).size());
  }
  const Topology &getTopology() const { return Topo; }
  /// The groups of ranks in sums, see above: nodes, or islands.
  virtual const Topology &getSumOrder() const { return Topo; }
  /// Whether the order of sums is the above, on all ranks. A library that adds
  /// in an order of its own still gives all ranks the same bits.
  virtual bool addsInOrder() const { return true; }
  /// Before collectives of a device's memory: what is started next does not
  /// begin before the device has come to `Point` (Device::recordPoint).
  virtual void waitFor(void *Point) { (void)Point; }
  /// Null where collectives need the host.
  virtual DeviceOrder *getDeviceOrder() { return nullptr; }
  /// Collective: see MessageCommunicator, the only one that does it.
  virtual void useIslands(const Topology &Islands);

  /// Puts the shards of all ranks together: `Full` gets all Bounds[size]
  /// elements. `Shard` may be the own slice of `Full` if the types are the
  /// same. All ranks get what the wire carried, the owner of a slice, too.
  virtual void allGather(const void *Shard, Type ShardType, void *Full,
                         Type FullType, Type Wire, const int64_t *Bounds) = 0;

  /// The sum over all ranks of `Full`, of which each rank gets its own slice:
  /// added to what is in `Shard`, or written there. `Shard` may be the own
  /// slice of `Full`. If it is added, the own slice of `Full` is left
  /// undefined.
  virtual void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                             Type Wire, const int64_t *Bounds) = 0;

  /// The sum over all ranks of `Source`, the same bits on each: reduceScatter,
  /// then allGather. `Result` may be `Source`. The bounds say who adds what.
  virtual void allReduce(const float *Source, float *Result, Type Wire,
                         const int64_t *Bounds);

  /// The same where links between nodes are slow: inside of the nodes of
  /// `Sites` sums are exact, those that cross are rounded to the wire type, and
  /// by how much is kept in `Residual` and added to the next sum. It has, from
  /// the first call on 0, countResidual() elements, for these bounds.
  struct Feedback {
    float *Residual;
  };
  virtual void reduceScatter(const float *Full, float *Shard, bool Accumulate,
                             Type Wire, const int64_t *Bounds,
                             const Feedback &Kept);
  void allReduce(const float *Source, float *Result, Type Wire,
                 const int64_t *Bounds, const Feedback &Kept);
  /// Elements of a rank's residual; an all-reduce gathers sums in the wire
  /// type, too.
  static int64_t countResidual(const Topology &Sites, int Rank,
                               const int64_t *Bounds, bool GathersSums);
  /// What nodes are to them. Collective; once.
  virtual void useSites(const Topology &Sites);
  virtual const Topology &getSites() const { return Topo; }

  /// In place, and in the order of the ranks: the same bits on each.
  virtual void allReduceSum(int64_t *Values, int64_t Count) = 0;
  virtual void allReduceMax(int64_t *Values, int64_t Count) = 0;
  virtual void allReduceSum(double *Values, int64_t Count) = 0;

  virtual void broadcast(void *Data, int64_t Bytes, int Root) = 0;

  /// `Root` gets all shards in `Full`, which others do not touch. `Shard` may
  /// be the own slice of `Full`.
  virtual void gather(const void *Shard, void *Full, Type T,
                      const int64_t *Bounds, int Root) = 0;

  /// Returns when all ranks have called it.
  void barrier();

  /// Strings of any length, by rank; empty but on the root.
  std::vector<std::string> gatherStrings(const std::string &Mine, int Root);

  /// Messages between two ranks, of a kind, which is a small number; those of a
  /// kind arrive in the order in which they were sent. Returns the message's
  /// number at once; the memory belongs to it until `test` has said, once, that
  /// it is complete.
  virtual int send(int Peer, int Kind, const void *Data, int64_t Bytes);
  virtual int receive(int Peer, int Kind, void *Data, int64_t Bytes);
  /// Room for `Count` of them at a time. Collective.
  virtual void reserveMessages(int Count);
  virtual bool test(int Message);
  /// When something known will happen next: no use in testing earlier.
  virtual std::chrono::steady_clock::time_point getNextEvent() const {
    return std::chrono::steady_clock::time_point::max();
  }
  /// What to sleep on between two tests: see Transport.
  virtual int getDescriptor() const { return -1; }
  virtual bool arm() { return true; }
  /// What to do while a collective waits for others; returns whether there was
  /// anything to do. Before makeSubgroup.
  void setBackground(std::function<bool()> Function) {
    Background = std::move(Function);
  }

  /// A communicator among these ranks, ascending, of which this is one. It
  /// lives no longer than this one. A rank calls collectives of all its
  /// communicators one after the other, any two ranks in the same order.
  virtual std::unique_ptr<Communicator>
  makeSubgroup(const std::vector<int> &Ranks);

  /// Working memory from now on, instead of what the communicator allocated for
  /// itself: 64-byte aligned, at least getScratchBytes(size()) bytes, as many
  /// on all ranks. Collective.
  virtual void useScratch(void *Memory, int64_t Bytes) = 0;

  /// Bytes sent so far, to ranks of the own node and of others.
  virtual int64_t getLocalBytes() const = 0;
  virtual int64_t getRemoteBytes() const = 0;
  /// How long they occupied an injected link (LinkModel.h).
  virtual double getLinkSeconds() const = 0;

  /// Connections for heartbeats, if the ranks have some already; once.
  virtual HeartbeatSockets takeSockets() { return {}; }

  /// Orderly end. Collective; not called after a failure.
  virtual void close() = 0;

  /// Ends the job of a failed rank: other processes are ended by the launcher,
  /// other threads by an Error with this message.
  virtual void abort(const std::string &Message) = 0;

  /// Makes calls under way and later ones throw. May be called from any thread.
  virtual void interrupt() { Interrupted = true; }
  const std::atomic<bool> &isInterrupted() const { return Interrupted; }

protected:
  int Rank;
  Topology Topo;
  std::atomic<bool> Interrupted{false};
  std::function<bool()> Background;
};

/// Working memory with which a communicator of `Size` ranks performs well. The
/// memory plan counts on exactly this: 4 MiB up to 64 ranks, then 64 KiB a
/// rank.
int64_t getScratchBytes(int Size);

/// Cuts `Count` elements into `Size` slices as equal as can be.
std::vector<int64_t> getEqualBounds(int64_t Count, int Size);

} // namespace poplar::runtime::comm

#endif // POPLAR_RUNTIME_COMM_COMMUNICATOR_H

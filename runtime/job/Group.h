//===- Group.h - The ranks of a job -----------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GROUP_H
#define POPLAR_RUNTIME_GROUP_H

#include "comm/Agreement.h"
#include "comm/CommStream.h"
#include "comm/Islands.h"
#include "comm/Watchdog.h"
#include "program/Collectives.h"
#include "program/Staging.h"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace poplar::runtime {

/// Collectives of generated code over a CommStream.
class Group : public Collectives {
public:
  /// Collective: checks that there are as many ranks as the plan has, that all
  /// hold the same plan and claim the same, and that each runs the program of
  /// its device type. Calls `Watched` as soon as the watchdog ends a start that
  /// does not go on.
  Group(const PoplarProgram &Program, const comm::CommStream::Factory &Make,
        std::vector<comm::Claim> Claims, const std::function<void()> &Watched,
        size_t TraceCapacity = 0);

  int rank() const override { return Stream.rank(); }
  /// Orderly end; collective.
  void close();
  /// Rank 0 writes what all ranks did when. Collective.
  void writeTrace(const std::string &Path);
  comm::CommStatistics getStatistics() const { return Stream.getStatistics(); }

  /// Goes on with collectives of memory of `D`, as far as they reach it: by its
  /// library, or through the host. Collective; the memory, all of it allocated,
  /// needs a MemoryGuard (comm/CommStream.h).
  void reach(Device &D);
  /// Whether collectives then take addresses of its memory as they are.
  bool reachesDevice() const { return TheDevice != nullptr; }
  /// Starts collective number `Id`, of memory of that device, and waits for it
  /// on the host.
  void start(int64_t Id, comm::Collective C);
  void wait(int64_t Id);

  void attach(const State &S, Device &D) override;
  void start(const PoplarCollective &What, void *Buffer) override;
  void wait(const PoplarCollective &What) override;
  int send(int Peer, int Kind, const void *Data, int64_t Bytes) override;
  int receive(int Peer, int Kind, void *Data, int64_t Bytes) override;
  void waitMessage(int Message) override;
  bool hasExchanges() const override { return ExchangeDevice != nullptr; }
  int64_t startExchange(
      const std::vector<comm::IslandLibrary::Transfer> &Transfers) override;
  void waitExchange(int64_t Number) override;
  void sum(int64_t *Values, int64_t Count) override;
  void sum(double *Values, int64_t Count) override;
  void max(int64_t *Values, int64_t Count) override;
  void gather(const float *Shard, float *Full, const int64_t *Bounds) override;
  std::string broadcast(const std::string &Text) override;
  void agree(const std::vector<comm::Claim> &Claims) override;
  void barrier() override;
  void setPhase(const char *Name, double Seconds) override;
  void progress() override;
  void recordTurn(bool IsBackward, int64_t MicroBatch,
                  std::chrono::steady_clock::time_point Begin) override;
  void recordStep(int64_t Step,
                  std::chrono::steady_clock::time_point Begin) override;
  Times getTimes() const override;
  [[noreturn]] void fail(const std::string &Message) override;
  comm::CommStream &stream() { return Stream; }

private:
  /// The ranks of a bucket's collectives: a group of the stream's (-1: all),
  /// this rank's place in it, and the bounds of its ranks' parts.
  struct Scope {
    int Subgroup = -1, Rank = 0, Size = 0;
    std::vector<int64_t> Bounds;
    /// The device whose memory a library of these ranks reaches, if one does.
    Device *OnDevice = nullptr;
  };

  /// Throws a Disagreement, on all ranks, and prints notes on the first.
  void compare(const std::vector<comm::Claim> &Claims);
  void checkPlan(std::vector<comm::Claim> Claims);
  void pinToCores();
  void makeScopes();
  Scope makeScope(const std::vector<int> &Ranks);
  const Scope &getScope(const PoplarCollective &What) const;
  void useSites();
  /// Begins a collective of ranks of which this one is number `Rank`, and whose
  /// memory is `OnDevice`'s, or the host's if that is null.
  void begin(int64_t Id, comm::Collective C, int Rank, int Size,
             Device *OnDevice);
  /// Makes the libraries of ranks that share units, or hold the same buckets.
  void
  joinTeams(Device &D, const std::vector<comm::IslandOffer> &Offers,
            const std::function<const comm::IslandMaker &(comm::Communicator &)>
                &GetMaker,
            std::string &Description);

  const PoplarProgram &Program;
  std::string DeviceType;
  const State *TheState = nullptr;
  comm::CommStream Stream;
  std::optional<comm::Watchdog> Dog;
  /// By bucket: of those that hold it, or of a shard group; and, if there are
  /// replicas, of those that hold the same shard.
  std::vector<Scope> Scopes, Peers;
  /// Numbers of the groups that this rank is in.
  std::map<std::vector<int>, int> Subgroups;
  /// Tickets of the collectives under way, by their id.
  std::vector<comm::CommStream::Ticket> Tickets;
  /// Null where communicators reach the device's memory as soon as they are
  /// asked to.
  Device *TheDevice = nullptr;
  /// Staging through the host's memory, where they do not reach the device's.
  std::optional<Staging> Staged;
  /// The device whose memory a library exchanges with ranks that share units,
  /// if one does; and the transfers of such exchanges, by their points.
  Device *ExchangeDevice = nullptr;
  std::vector<std::vector<comm::IslandLibrary::Transfer>> Transfers;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GROUP_H

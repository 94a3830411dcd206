//===- Group.cpp - The ranks of a job -------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Group.h"
#include "comm/Host.h"
#include "job/HostCollectives.h"
#include "program/Executor.h"
#include "program/Island.h"
#include "program/State.h"
#include "support/CommandName.h"
#include "support/Cores.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

using namespace poplar::runtime;

/// The most messages of a rank under way at a time: one for each buffer of a
/// pipeline's messages, and all pieces of two exchanges with each of the ranks
/// that share units.
static int countMessages(const PoplarProgram &Program) {
  int64_t Exchanged = 0, Links = 0;
  for (int64_t R = 0; Program.ranks && R < Program.world_size; ++R) {
    const PoplarRank &Rank = Program.ranks[R];
    Exchanged =
        std::max(Exchanged, 4 * POPLAR_MAX_PIECES * (Rank.num_sharers - 1));
    Links = std::max({Links, Rank.num_previous, Rank.num_next});
  }
  int64_t Passed = 0;
  if (Program.pipeline)
    Passed = Program.pipeline->num_chunks * (POPLAR_NUM_PORTS - 1) *
             POPLAR_MESSAGE_BUFFERS * Links;
  return static_cast<int>(Exchanged + Passed);
}

Group::Group(const PoplarProgram &Program,
             const comm::CommStream::Factory &Make,
             std::vector<comm::Claim> Claims,
             const std::function<void()> &Watched, size_t TraceCapacity)
    : Program(Program), DeviceType(ModelInfo(Program).DeviceType),
      Stream(Make, TraceCapacity),
      Tickets(static_cast<size_t>(Program.num_collectives)) {
  comm::WatchdogOptions Options;
  if (const char *Path = std::getenv("POPLAR_FAILURE_REPORT"))
    Options.ReportPath = Path;
  // From here on, nobody waits in vain for a rank that ends or is stopped.
  Dog.emplace(Stream, DeviceType, Options);
  Watched();
  try {
    checkPlan(std::move(Claims));
  } catch (const Disagreement &) {
    close();
    throw;
  } catch (const std::exception &E) {
    fail(E.what());
  }
  pinToCores();
  if (int Messages = countMessages(Program))
    Stream.reserveMessages(Messages);
  makeScopes();
  useSites();
}

/// Whether all ranks run programs of one plan, each its own.
void Group::checkPlan(std::vector<comm::Claim> Claims) {
  if (Stream.size() != Program.world_size)
    runtime::fail("the plan has ", Program.world_size, " ranks, but ",
                  Stream.size(), Stream.size() == 1 ? " was" : " were",
                  " started; start the job with poplar train or launch.sh");
  Claims.insert(Claims.begin(), {"plan", comm::toHex(Program.plan_hash)});
  Claims.push_back({"library of messages", Stream.getLibrary(), false});
  compare(Claims);
  const char *Planned = Program.ranks[rank()].device_type;
  if (DeviceType != Planned)
    fail("runs the program of device type " + DeviceType +
         ", but the plan has this rank on " + Planned +
         "; the order of launch.sh is that of the plan");
  if (Program.pipeline &&
      Program.pipeline->group != Program.ranks[rank()].group)
    fail("runs the program of stage " +
         std::to_string(Program.pipeline->group) +
         ", but the plan has this rank in stage " +
         std::to_string(Program.ranks[rank()].group) +
         "; the order of launch.sh is that of the plan");
}

void Group::compare(const std::vector<comm::Claim> &Claims) {
  comm::Comparison Found;
  Stream.run([&](comm::Communicator &C) {
    Found =
        comm::compareClaims(C, Claims, comm::getHostName() + ", " + DeviceType);
  });
  if (!Found.Note.empty() && rank() == 0)
    std::fprintf(Notes, "note: different on some ranks: %s\n",
                 Found.Note.c_str());
  if (Found.Error.empty())
    return;
  comm::reportFailure(Found.Error);
  throw Disagreement(Found.Error);
}

void Group::agree(const std::vector<comm::Claim> &Claims) { compare(Claims); }

/// The scope of some ranks, this one among them; without bounds.
Group::Scope Group::makeScope(const std::vector<int> &Ranks) {
  auto [Known, IsNew] = Subgroups.insert({Ranks, 0});
  if (IsNew)
    Known->second = Stream.addSubgroup(Ranks);
  Scope S;
  S.Subgroup = Known->second;
  S.Rank = static_cast<int>(std::find(Ranks.begin(), Ranks.end(), rank()) -
                            Ranks.begin());
  S.Size = static_cast<int>(Ranks.size());
  return S;
}

/// The ranks of a shard group, and those in one place of all shard groups.
static std::vector<int> listShardGroup(const PoplarProgram &Program,
                                       int64_t Replica) {
  int64_t Size = getShardGroupSize(Program);
  std::vector<int> Ranks(static_cast<size_t>(Size));
  std::iota(Ranks.begin(), Ranks.end(), static_cast<int>(Replica * Size));
  return Ranks;
}

static std::vector<int> listPeers(const PoplarProgram &Program, int64_t Place) {
  std::vector<int> Ranks;
  for (int64_t R = Place; R < Program.world_size;
       R += getShardGroupSize(Program))
    Ranks.push_back(static_cast<int>(R));
  return Ranks;
}

void Group::makeScopes() {
  int64_t Size = getShardGroupSize(Program);
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    Scope &S = Scopes.emplace_back();
    if (Program.replicas > 1) {
      S = makeScope(listShardGroup(Program, rank() / Size));
      S.Bounds.assign(Bucket.bounds, Bucket.bounds + Size + 1);
      Scope &P =
          Peers.emplace_back(makeScope(listPeers(Program, rank() % Size)));
      P.Bounds = comm::getEqualBounds(
          Bucket.bounds[S.Rank + 1] - Bucket.bounds[S.Rank], P.Size);
      continue;
    }
    if (!Bucket.ranks) {
      S.Rank = rank();
      S.Size = Stream.size();
      S.Bounds.assign(Bucket.bounds, Bucket.bounds + Program.world_size + 1);
      continue;
    }
    std::vector<int> Ranks(Bucket.ranks, Bucket.ranks + Bucket.num_ranks);
    if (!std::binary_search(Ranks.begin(), Ranks.end(), rank()))
      continue; // this rank does not hold it
    S = makeScope(Ranks);
    // Shards of others are empty.
    for (int R : Ranks)
      S.Bounds.push_back(Bucket.bounds[R]);
    S.Bounds.push_back(Bucket.elements);
  }
}

const Group::Scope &Group::getScope(const PoplarCollective &What) const {
  bool SumsShards = What.kind == POPLAR_ALL_REDUCE && Program.replicas > 1;
  return (SumsShards ? Peers : Scopes)[static_cast<size_t>(What.bucket)];
}

/// The nodes of the plan, of all ranks or of those that hold a bucket.
static comm::Topology findSites(const PoplarProgram &Program,
                                const PoplarBucket &Bucket) {
  std::map<std::string, int> Numbers;
  std::vector<int> Nodes;
  int64_t Count = Bucket.ranks ? Bucket.num_ranks : Program.world_size;
  for (int64_t I = 0; I < Count; ++I) {
    int64_t R = Bucket.ranks ? Bucket.ranks[I] : I;
    Nodes.push_back(Numbers
                        .try_emplace(Program.ranks[R].node,
                                     static_cast<int>(Numbers.size()))
                        .first->second);
  }
  return comm::Topology(Nodes);
}

/// Lossy sums go by the nodes of the plan, and not by those of the job at hand:
/// what is rounded, and what ranks keep of it, is the same wherever it runs.
void Group::useSites() {
  std::set<int> Known;
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    const Scope &S = Scopes[static_cast<size_t>(B)];
    if (!Bucket.residuals || S.Size == 0)
      continue;
    comm::Topology Sites = findSites(Program, Bucket);
    if (Bucket.residuals[rank()] !=
        comm::Communicator::countResidual(Sites, S.Rank, S.Bounds.data(),
                                          /*GathersSums=*/Bucket.stage == 0))
      fail("the plan reserves another error feedback for bucket '" +
           std::string(Bucket.name) + "' than its ranks keep");
    if (Known.insert(S.Subgroup).second)
      Stream.useSites(S.Subgroup, Sites);
  }
}

/// Gives the ranks of a machine cores of their own, in order, if there are
/// enough. Threads that this one starts inherit them.
void Group::pinToCores() {
  std::string Hosts;
  Stream.run([&](comm::Communicator &C) {
    for (const std::string &Host : C.gatherStrings(comm::getHostName(), 0))
      Hosts += Host + "\n";
  });
  std::istringstream Lines(broadcast(Hosts));
  std::string Mine = comm::getHostName(), Host;
  int64_t First = 0, Total = 0;
  for (int R = 0; std::getline(Lines, Host); ++R) {
    if (R == rank())
      First = Total;
    if (Host == Mine)
      Total += Program.ranks[R].threads;
  }
  const std::vector<int> &Cores = getGivenCores();
  if (Total > static_cast<int64_t>(Cores.size()))
    return;
  poplar::runtime::pinToCores(
      Cores, static_cast<size_t>(First),
      static_cast<size_t>(First + Program.ranks[rank()].threads));
}

void Group::attach(const State &S, Device &D) {
  TheState = &S;
  reach(D);
}

/// The ranks that share units with each other.
static std::vector<std::vector<int>> listTeams(const PoplarProgram &Program) {
  std::vector<std::vector<int>> Teams;
  for (int64_t R = 0; Program.ranks && R < Program.world_size; ++R) {
    const PoplarRank &Rank = Program.ranks[R];
    if (Rank.num_sharers > 1 && Rank.position == 0)
      Teams.emplace_back(Rank.sharers, Rank.sharers + Rank.num_sharers);
  }
  return Teams;
}

/// The sets of several ranks that hold buckets, or that are shard groups or
/// hold the same shard; none in a plan in which all ranks have collectives
/// together.
static std::vector<std::vector<int>> listHolders(const PoplarProgram &Program) {
  std::set<std::vector<int>> Holders;
  for (int64_t B = 0; B < Program.num_buckets; ++B) {
    const PoplarBucket &Bucket = Program.buckets[B];
    if (Bucket.ranks && Bucket.num_ranks > 1)
      Holders.emplace(Bucket.ranks, Bucket.ranks + Bucket.num_ranks);
  }
  if (Program.replicas > 1) {
    for (int64_t I = 0; I < Program.replicas; ++I)
      Holders.insert(listShardGroup(Program, I));
    for (int64_t I = 0; I < getShardGroupSize(Program); ++I)
      Holders.insert(listPeers(Program, I));
  }
  return {Holders.begin(), Holders.end()};
}

void Group::joinTeams(
    Device &D, const std::vector<comm::IslandOffer> &Offers,
    const std::function<const comm::IslandMaker &(comm::Communicator &)>
        &GetMaker,
    std::string &Description) {
  std::vector<std::vector<int>> Teams =
      comm::findTeams(Offers, listTeams(Program), "exchanges", "", Description);
  std::vector<std::vector<int>> Holders =
      comm::findTeams(Offers, listHolders(Program), "collectives",
                      explainHostCollectives(Program), Description);
  if (Teams.empty() && Holders.empty())
    return;
  auto GetType = [&](int R) {
    return Offers[static_cast<size_t>(R)].MemoryType;
  };
  Stream.useLibraries([&](comm::Communicator &C) {
    comm::DeviceLibraries Made;
    auto OfHolders = comm::joinTeams(C, Holders, GetMaker(C));
    for (size_t I = 0; I < Holders.size(); ++I) {
      if (!OfHolders[I])
        continue;
      const std::vector<int> &Ranks = Holders[I];
      bool Uniform = std::all_of(Ranks.begin(), Ranks.end(), [&](int R) {
        return GetType(R) == GetType(Ranks[0]);
      });
      int Number = Subgroups.at(Ranks);
      Made.Subgroups.push_back({Number, std::move(OfHolders[I]), Uniform});
      for (std::vector<Scope> *List : {&Scopes, &Peers})
        for (Scope &S : *List)
          if (S.Subgroup == Number)
            S.OnDevice = &D;
    }
    for (auto &Library : comm::joinTeams(C, Teams, GetMaker(C)))
      if (Library) {
        Made.Exchanges = std::move(Library);
        ExchangeDevice = &D;
      }
    return Made;
  });
}

void Group::reach(Device &D) {
  TheDevice = ExchangeDevice = nullptr;
  for (std::vector<Scope> *List : {&Scopes, &Peers})
    for (Scope &S : *List)
      S.OnDevice = nullptr;
  Staged.reset();
  std::string Description;
  std::vector<comm::IslandOffer> Offers;
  std::optional<comm::IslandMaker> Maker;
  auto GetMaker = [&](comm::Communicator &C) -> const comm::IslandMaker & {
    if (!Maker)
      Maker = getIslandMaker(D, Program, C.rank(), C.isInterrupted());
    return *Maker;
  };
  Stream.extend([&](comm::Communicator &C) {
    Offers = comm::exchange(C, offerIsland(Program, C.rank()));
    comm::Islands Plan = comm::planIslands(Offers, C.getTopology());
    Description = Plan.Description;
    if (Plan.WithLibrary[static_cast<size_t>(C.rank())])
      TheDevice = &D;
    return comm::makeIslands(C, Plan, GetMaker(C));
  });
  joinTeams(D, Offers, GetMaker, Description);
  if (rank() == 0)
    std::fputs(Description.c_str(), Notes);
  // Made now: nothing is allocated in a step.
  bool HasPoints = TheDevice || ExchangeDevice;
  for (const std::vector<Scope> *List : {&Scopes, &Peers})
    for (const Scope &S : *List)
      HasPoints |= S.OnDevice != nullptr;
  for (int Number = 0; HasPoints && Number < 2 * comm::CommStream::NumPoints;
       ++Number)
    D.recordPoint(Number);
  Transfers.resize(ExchangeDevice ? comm::CommStream::NumPoints : 0);
  for (auto &List : Transfers)
    List.reserve(POPLAR_MAX_SHARERS);
  if (!D.sharesMemory() && !TheDevice)
    Staged.emplace(D, Program.num_collectives, Stream.getMaxMessages());
}

void Group::start(const PoplarCollective &What, void *Buffer) {
  const Scope &Ranks = getScope(What);
  const Shard &Own = TheState->shard(What.bucket);
  comm::Type Working = getWireType(getWorkingType(Program, What.bucket));
  comm::Collective C;
  C.Bounds = Ranks.Bounds.data();
  C.Bucket = What.bucket;
  C.Subgroup = Ranks.Subgroup;
  C.Wire = getWireType(What.wire_type);
  switch (What.kind) {
  case POPLAR_ALL_GATHER:
    C.TheKind = comm::Collective::AllGather;
    // The master, if the wire keeps its precision or rounds by itself.
    if (Own.Master && (C.Wire == comm::Type::F32 || C.Wire == comm::Type::I8 ||
                       Working == comm::Type::F32)) {
      C.Send = Own.Master;
    } else {
      C.Send = Own.Working;
      C.SendType = Working;
    }
    C.Receive = Buffer;
    C.ReceiveType = Working;
    break;
  case POPLAR_REDUCE_SCATTER:
    C.TheKind = comm::Collective::ReduceScatter;
    C.Send = Buffer;
    C.Receive = Own.Gradient;
    C.Accumulate = What.transient;
    break;
  default:
    C.TheKind = comm::Collective::AllReduce;
    C.Send = C.Receive = Buffer ? Buffer : Own.Gradient;
  }
  if (What.kind != POPLAR_ALL_GATHER && C.Wire != comm::Type::F32) {
    C.IsLossy = true;
    C.Residual = Own.Residual;
  }
  begin(What.id, C, Ranks.Rank, Ranks.Size,
        Ranks.OnDevice ? Ranks.OnDevice : TheDevice);
}

void Group::start(int64_t Id, comm::Collective C) {
  begin(Id, C, Stream.rank(), Stream.size(), TheDevice);
}

void Group::begin(int64_t Id, comm::Collective C, int Rank, int Size,
                  Device *OnDevice) {
  if (OnDevice)
    C.After = OnDevice->recordPoint(Stream.getStartPoint());
  else if (Staged)
    C = Staged->begin(Id, C, Rank, Size);
  Tickets[static_cast<size_t>(Id)] = Stream.start(C);
}

void Group::wait(int64_t Id) {
  Stream.wait(Tickets[static_cast<size_t>(Id)]);
  if (Staged)
    Staged->end(Id);
}

/// The device waits where it can: the host goes on, and gives it what comes
/// after, until it has to read something.
void Group::wait(const PoplarCollective &What) {
  Device *OnDevice = getScope(What).OnDevice;
  if (!OnDevice && Stream.isOrderedByDevice())
    OnDevice = TheDevice;
  if (!OnDevice)
    return wait(What.id);
  comm::CommStream::Ticket Ticket = Tickets[static_cast<size_t>(What.id)];
  void *Here = OnDevice->recordPoint(comm::CommStream::getWaitPoint(Ticket));
  if (void *Point = Stream.waits(Ticket, Here))
    OnDevice->waitFor(Point);
}

int Group::send(int Peer, int Kind, const void *Data, int64_t Bytes) {
  if (!Staged)
    return Stream.send(Peer, Kind, Data, Bytes);
  std::vector<char> Copy = Staged->beginSend(Data, Bytes);
  int Message = Stream.send(Peer, Kind, Copy.data(), Bytes);
  Staged->keep(Message, std::move(Copy), nullptr);
  return Message;
}

int Group::receive(int Peer, int Kind, void *Data, int64_t Bytes) {
  if (!Staged)
    return Stream.receive(Peer, Kind, Data, Bytes);
  std::vector<char> Copy = Staged->beginReceive(Bytes);
  int Message = Stream.receive(Peer, Kind, Copy.data(), Bytes);
  Staged->keep(Message, std::move(Copy), Data);
  return Message;
}

void Group::waitMessage(int Message) {
  Stream.waitMessage(Message);
  if (Staged)
    Staged->endMessage(Message);
}

int64_t
Group::startExchange(const std::vector<comm::IslandLibrary::Transfer> &List) {
  int Point = Stream.getStartPoint();
  auto &Kept = Transfers[static_cast<size_t>(Point)];
  Kept.assign(List.begin(), List.end());
  comm::Collective C;
  C.TheKind = comm::Collective::Exchange;
  C.Transfers = &Kept;
  C.After = ExchangeDevice->recordPoint(Point);
  return Stream.start(C);
}

void Group::waitExchange(int64_t Number) {
  void *Here =
      ExchangeDevice->recordPoint(comm::CommStream::getWaitPoint(Number));
  if (void *Point = Stream.waits(Number, Here))
    ExchangeDevice->waitFor(Point);
}

void Group::sum(int64_t *Values, int64_t Count) {
  Stream.run([=](comm::Communicator &C) { C.allReduceSum(Values, Count); });
}

void Group::sum(double *Values, int64_t Count) {
  Stream.run([=](comm::Communicator &C) { C.allReduceSum(Values, Count); });
}

void Group::max(int64_t *Values, int64_t Count) {
  Stream.run([=](comm::Communicator &C) { C.allReduceMax(Values, Count); });
}

void Group::gather(const float *Shard, float *Full, const int64_t *Bounds) {
  Stream.run([=](comm::Communicator &C) {
    C.gather(Shard, Full, comm::Type::F32, Bounds, 0);
  });
}

std::string Group::broadcast(const std::string &Text) {
  int64_t Size = static_cast<int64_t>(Text.size());
  std::string Result = Text;
  Stream.run([&](comm::Communicator &C) {
    C.broadcast(&Size, sizeof(Size), 0);
    Result.resize(static_cast<size_t>(Size));
    C.broadcast(Result.data(), Size, 0);
  });
  return Result;
}

void Group::barrier() {
  Stream.run([](comm::Communicator &C) { C.barrier(); });
}

void Group::setPhase(const char *Name, double Seconds) {
  Dog->setPhase(Name, Seconds);
}

void Group::progress() { Dog->progress(); }

void Group::recordTurn(bool IsBackward, int64_t MicroBatch,
                       std::chrono::steady_clock::time_point Begin) {
  if (comm::Trace *Events = Stream.getTrace())
    Events->record(comm::Trace::Compute, IsBackward ? "backward" : "forward",
                   Begin, comm::Clock::now(), MicroBatch);
}

Collectives::Times Group::getTimes() const {
  comm::CommStatistics S = Stream.getStatistics();
  return {S.getExposedSeconds() + S.CallSeconds, S.getThreadSeconds()};
}

void Group::recordStep(int64_t Step,
                       std::chrono::steady_clock::time_point Begin) {
  if (comm::Trace *Events = Stream.getTrace())
    Events->record(comm::Trace::Steps, "step", Begin, comm::Clock::now(), Step);
}

void Group::fail(const std::string &Message) { Dog->fail(Message); }

void Group::close() {
  try {
    Dog->close();
  } catch (const std::exception &E) {
    fail(E.what());
  }
}

void Group::writeTrace(const std::string &Path) {
  std::string Name = comm::getHostName() + ", " + DeviceType;
  Stream.run(
      [&](comm::Communicator &C) { Stream.getTrace()->write(C, Path, Name); });
}

//===- Group.cpp - The ranks of a job -------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Group.h"
#include "Cores.h"
#include "Error.h"
#include "Executor.h"
#include "Island.h"
#include "State.h"
#include "comm/PlanCheck.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <unistd.h>

using namespace poplar::runtime;

static std::string getHostName() {
  char Name[256] = {};
  gethostname(Name, sizeof(Name) - 1);
  return Name;
}

Group::Group(const PoplarProgram &Program,
             const comm::CommStream::Factory &Make, size_t TraceCapacity)
    : Program(Program), DeviceType(ModelInfo(Program).DeviceType),
      Stream(Make, TraceCapacity),
      Tickets(static_cast<size_t>(Program.num_collectives)) {
  if (Stream.size() != Program.world_size)
    runtime::fail("the plan has ", Program.world_size, " ranks, but ",
                  Stream.size(), Stream.size() == 1 ? " was" : " were",
                  " started; start the job with poplar train or launch.sh");
  Stream.run([&](comm::Communicator &C) {
    comm::checkSame(C, "plan", Program.plan_hash,
                    getHostName() + ", " + DeviceType);
  });
  comm::WatchdogOptions Options;
  if (const char *Path = std::getenv("POPLAR_FAILURE_REPORT"))
    Options.ReportPath = Path;
  Dog.emplace(Stream, DeviceType, Options);
  const char *Planned = Program.ranks[rank()].device_type;
  if (DeviceType != Planned)
    fail("runs the program of device type " + DeviceType +
         ", but the plan has this rank on " + Planned +
         "; the order of launch.sh is that of the plan");
  pinToCores();
}

/// Gives the ranks of a machine cores of their own, in order, if there are
/// enough. Threads that this one starts inherit them.
void Group::pinToCores() {
  std::string Hosts;
  Stream.run([&](comm::Communicator &C) {
    for (const std::string &Host : C.gatherStrings(getHostName(), 0))
      Hosts += Host + "\n";
  });
  std::istringstream Lines(broadcast(Hosts));
  std::string Mine = getHostName(), Host;
  int64_t First = 0, Total = 0;
  for (int R = 0; std::getline(Lines, Host); ++R) {
    if (R == rank())
      First = Total;
    if (Host == Mine)
      Total += Program.ranks[R].threads;
  }
  std::vector<int> Cores = getCores();
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

void Group::reach(Device &D) {
  TheDevice = nullptr;
  Staged.reset();
  std::string Description;
  Stream.extend([&](comm::Communicator &C) {
    comm::Islands Plan = comm::planIslands(
        comm::exchange(C, offerIsland(Program, C.rank())), C.getTopology());
    Description = Plan.Description;
    if (Plan.WithLibrary[static_cast<size_t>(C.rank())])
      TheDevice = &D;
    return comm::makeIslands(
        C, Plan, getIslandMaker(D, Program, C.rank(), C.isInterrupted()));
  });
  if (rank() == 0)
    std::printf("%s", Description.c_str());
  if (!D.sharesMemory() && !TheDevice)
    Staged.emplace(D, Program.num_collectives, Stream.rank(), Stream.size());
}

void Group::start(const PoplarCollective &What, void *Buffer) {
  const PoplarBucket &Bucket = Program.buckets[What.bucket];
  const Shard &Own = TheState->shard(What.bucket);
  auto Working = static_cast<comm::Type>(Program.working_type);
  comm::Collective C;
  C.Bounds = Bucket.bounds;
  C.Bucket = What.bucket;
  C.Wire = static_cast<comm::Type>(What.wire_type);
  switch (What.kind) {
  case POPLAR_ALL_GATHER:
    C.TheKind = comm::Collective::AllGather;
    // The master, where the wire does it justice.
    if (C.Wire == comm::Type::F32) {
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
    C.Send = C.Receive = Buffer;
  }
  start(What.id, C);
}

void Group::start(int64_t Id, comm::Collective C) {
  if (Staged)
    C = Staged->begin(Id, C);
  if (TheDevice)
    C.After = TheDevice->recordPoint(Id);
  Tickets[static_cast<size_t>(Id)] = Stream.start(C);
}

void Group::wait(int64_t Id) {
  Stream.wait(Tickets[static_cast<size_t>(Id)]);
  if (Staged)
    Staged->end(Id);
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

void Group::fail(const std::string &Message) { Dog->fail(Message); }

void Group::close() {
  Dog->close();
  Stream.close();
}

void Group::writeTrace(const std::string &Path) {
  std::string Name = getHostName() + ", " + DeviceType;
  Stream.run(
      [&](comm::Communicator &C) { Stream.getTrace()->write(C, Path, Name); });
}

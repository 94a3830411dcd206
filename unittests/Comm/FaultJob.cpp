//===- FaultJob.cpp - A job to be killed ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Loops over collectives as training would, with a watchdog, and behaves badly
// on request. fault_test.py starts it under mpirun.
//
//   PoplarFaultJob --out DIR [--steps N] [--step-ms N] [--stall S]
//       [--throw RANK,STEP] [--hang RANK,STEP] [--hash RANK]
//       [--message BYTES,EXPECTED]
//
// Each rank prints `rank R pid P` after three steps. A run that ends in good
// order leaves a file DIR/rank-R that holds the number of steps done.
//
//===----------------------------------------------------------------------===//

#include "comm/Agreement.h"
#include "comm/Backend.h"
#include "comm/CommStream.h"
#include "comm/Launcher.h"
#include "comm/PluginTransport.h"
#include "comm/Watchdog.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

namespace {

struct Job {
  std::string Out;
  int64_t Steps = 1000000, StepMs = 5;
  double Stall = 10;
  int64_t ThrowRank = -1, ThrowStep = 0, HangRank = -1, HangStep = 0,
          HashRank = -1;
  /// Bytes of a message of rank 1 to rank 0; there is none if negative.
  int64_t SentBytes = -1, ExpectedBytes = 0;
};

} // namespace

static Job parse(int Argc, char **Argv) {
  Job J;
  for (int I = 1; I + 1 < Argc; I += 2) {
    std::string Option = Argv[I], Value = Argv[I + 1];
    size_t Comma = Value.find(',');
    int64_t First = std::atoll(Value.c_str());
    int64_t Second =
        Comma == std::string::npos ? 0 : std::atoll(Value.c_str() + Comma + 1);
    if (Option == "--out")
      J.Out = Value;
    else if (Option == "--steps")
      J.Steps = First;
    else if (Option == "--step-ms")
      J.StepMs = First;
    else if (Option == "--stall")
      J.Stall = std::atof(Value.c_str());
    else if (Option == "--throw")
      J.ThrowRank = First, J.ThrowStep = Second;
    else if (Option == "--hang")
      J.HangRank = First, J.HangStep = Second;
    else if (Option == "--hash")
      J.HashRank = First;
    else if (Option == "--message")
      J.SentBytes = First, J.ExpectedBytes = Second;
    else
      fail("unknown option ", Option);
  }
  return J;
}

/// Trains until the steps are done or a stop is requested; the steps done.
static int64_t train(const Job &J, CommStream &Stream, Watchdog &Dog) {
  constexpr int64_t Count = 100000;
  std::vector<int64_t> Bounds = getEqualBounds(Count, Stream.size());
  std::vector<float> Full(Count, 1), Shard(Count);
  CommStream::MemoryGuard Guard(Stream);
  Collective Gather, Reduce;
  Gather.TheKind = Collective::AllGather;
  Reduce.TheKind = Collective::ReduceScatter;
  Gather.Bounds = Reduce.Bounds = Bounds.data();
  Gather.Send = Full.data() + Bounds[Stream.rank()];
  Gather.Receive = Full.data();
  Reduce.Send = Full.data();
  Reduce.Receive = Shard.data();
  for (int64_t Step = 0; Step < J.Steps; ++Step) {
    int64_t Stop = StopSignals::isRequested();
    Stream.run([&](Communicator &C) { C.allReduceMax(&Stop, 1); });
    if (Stop)
      return Step;
    if (Step == 3) {
      std::printf("rank %d pid %d\n", Stream.rank(), getpid());
      std::fflush(stdout);
    }
    Gather.Bucket = Reduce.Bucket = static_cast<int32_t>(Step % 7);
    CommStream::Ticket T = Stream.start(Gather);
    if (Stream.rank() == J.ThrowRank && Step == J.ThrowStep)
      fail("out of memory, for a test");
    while (Stream.rank() == J.HangRank && Step >= J.HangStep)
      usleep(1000);
    usleep(static_cast<useconds_t>(J.StepMs * 1000));
    Stream.wait(T);
    Stream.start(Reduce);
    Stream.waitAll();
    Dog.progress();
  }
  return J.Steps;
}

/// Rank 1 sends rank 0 a message, which expects it to be of another length.
static void passMessage(const Job &J, CommStream &Stream) {
  std::vector<char> Data(
      static_cast<size_t>(std::max(J.SentBytes, J.ExpectedBytes)));
  Stream.reserveMessages(1);
  if (Stream.rank() == 1)
    Stream.waitMessage(Stream.send(0, 0, Data.data(), J.SentBytes));
  if (Stream.rank() == 0)
    Stream.waitMessage(Stream.receive(1, 0, Data.data(), J.ExpectedBytes));
}

static int run(const Job &J) {
  CommStream Stream([] { return makeCommunicator({}); });
  WatchdogOptions O;
  O.MinStall = J.Stall;
  if (const char *Path = std::getenv("POPLAR_FAILURE_REPORT"))
    O.ReportPath = Path;
  Watchdog Dog(Stream, "host:test" + std::to_string(Stream.rank()), O);
  try {
    uint64_t Hash = Stream.rank() == J.HashRank ? 1 : 2;
    Comparison Found;
    Stream.run([&](Communicator &C) {
      Found = compareClaims(C, {{"plan", toHex(Hash)}}, Dog.getName());
    });
    if (!Found.Error.empty())
      fail(Found.Error);
    if (J.SentBytes >= 0)
      passMessage(J, Stream);
    Dog.setPhase("step", static_cast<double>(J.StepMs) * 1e-3);
    int64_t Done = train(J, Stream, Dog);
    std::string Path = J.Out + "/rank-" + std::to_string(Stream.rank());
    std::ofstream(Path) << Done << "\n";
    Dog.close();
    return 0;
  } catch (const std::exception &E) {
    Dog.fail(E.what());
  }
}

int main(int Argc, char **Argv) {
  endWithLauncher();
  StopSignals Signals;
  try {
    return run(parse(Argc, Argv));
  } catch (const std::exception &E) {
    std::fprintf(stderr, "error: %s\n", E.what());
    declineJob(E.what());
    return 1;
  }
}

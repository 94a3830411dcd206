//===- CommTest.cpp - Parts of the communication runtime ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Backend.h"
#include "comm/CommStream.h"
#include "comm/Launcher.h"
#include "comm/ThreadTransport.h"
#include "comm/Watchdog.h"
#include "support/Error.h"
#include "support/JSON.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

static std::string getMessage(const std::function<void()> &Body) {
  try {
    Body();
  } catch (const Error &E) {
    return E.what();
  }
  return "";
}

/// Runs `Body` on each of `Size` ranks, each on a node of its own.
static void onThreads(int Size, const CommOptions &O,
                      const std::function<void(CommStream &)> &Body) {
  std::vector<int> Nodes;
  for (int Rank = 0; Rank < Size; ++Rank)
    Nodes.push_back(Rank);
  ThreadWorld World(Size, Nodes);
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < Size; ++Rank)
    Threads.emplace_back([&, Rank] {
      CommStream Stream([&] { return makeThreadCommunicator(World, Rank, O); },
                        /*TraceCapacity=*/100);
      Body(Stream);
      Stream.close();
    });
  for (std::thread &T : Threads)
    T.join();
}

TEST(Wire, RoundsToNearestEven) {
  auto To = [](Type Wire, float Value) {
    roundTo(&Value, Wire, 1);
    return Value;
  };
  EXPECT_EQ(To(Type::BF16, 1 + 1 / 256.f), 1.f);
  EXPECT_EQ(To(Type::BF16, 1 + 3 / 256.f), 1 + 1 / 64.f);
  EXPECT_EQ(To(Type::F16, 1 + 1 / 2048.f), 1.f);
  EXPECT_EQ(To(Type::F16, 1 + 3 / 2048.f), 1 + 1 / 512.f);
  EXPECT_EQ(To(Type::F16, 65519.f), 65504.f);
  EXPECT_EQ(To(Type::F16, 65520.f), INFINITY);
  EXPECT_EQ(To(Type::F16, -1e10f), -INFINITY);
  // Subnormals of f16, down to half of the smallest.
  EXPECT_EQ(To(Type::F16, std::ldexp(3.f, -24)), std::ldexp(3.f, -24));
  EXPECT_EQ(To(Type::F16, std::ldexp(1.f, -25)), 0.f);
  EXPECT_EQ(To(Type::F16, std::ldexp(1.1f, -25)), std::ldexp(1.f, -24));
  for (Type Wire : {Type::BF16, Type::F16}) {
    EXPECT_TRUE(std::isnan(To(Wire, NAN)));
    EXPECT_EQ(To(Wire, -INFINITY), -INFINITY);
    EXPECT_TRUE(std::signbit(To(Wire, -0.f)));
  }
}

TEST(Wire, EveryHalfSurvivesARoundTrip) {
  for (Type Wire : {Type::BF16, Type::F16})
    for (uint32_t Bits = 0; Bits < 65536; ++Bits) {
      auto Half = static_cast<uint16_t>(Bits);
      float Value;
      convert(&Half, Wire, &Value, Type::F32, 1);
      if (std::isnan(Value))
        continue;
      uint16_t Back;
      convert(&Value, Type::F32, &Back, Wire, 1);
      ASSERT_EQ(Back, Half) << comm::getName(Wire) << " " << Value;
    }
}

TEST(Topology, LeadersAreSpread) {
  Topology Topo({7, 3, 7, 3, 3});
  EXPECT_EQ(Topo.numNodes(), 2);
  EXPECT_TRUE(Topo.isTwoLevel());
  EXPECT_EQ(Topo.getMembers(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(Topo.getLocalRank(4), 2);
  EXPECT_EQ(Topo.getLeader(0, 2), 2); // owners lead
  EXPECT_NE(Topo.getLeader(1, 0), Topo.getLeader(1, 2));
  EXPECT_FALSE(Topology({0, 0, 0}).isTwoLevel());
  EXPECT_FALSE(Topology({0, 1, 2}).isTwoLevel());
}

TEST(Topology, NodeMapsAreChecked) {
  EXPECT_EQ(parseNodes("0,0,12", 3, "N"), (std::vector<int>{0, 0, 12}));
  EXPECT_EQ(getMessage([] { parseNodes("0,1", 3, "N"); }),
            "N=0,1 names the nodes of 2 ranks; there are 3");
  EXPECT_EQ(getMessage([] { parseNodes("0,,1", 3, "N"); }),
            "N=0,,1: '' is not a node number");
}

TEST(LinkModel, OptionIsChecked) {
  LinkModel Link = parseLinkModel("50,1.25");
  EXPECT_DOUBLE_EQ(Link.LatencySeconds, 50e-6);
  EXPECT_DOUBLE_EQ(Link.BytesPerSecond, 1.25e9);
  // The last two are no time that a clock can count.
  for (const char *Bad : {"", "50", "50,", "50,0", "-1,1", "1,nan", "1,2,3",
                          "1e300,1", "1,1e-300"})
    EXPECT_NE(getMessage([&] { parseLinkModel(Bad); }), "") << Bad;
}

TEST(Launcher, StartLimitIsChecked) {
  for (const char *Bad : {"", "0", "-1", "1e3", "soon", "99999999999"}) {
    setenv("POPLAR_START_SECONDS", Bad, 1);
    EXPECT_NE(getMessage([] { StartLimit Limit; }), "") << Bad;
  }
  setenv("POPLAR_START_SECONDS", "120", 1);
  {
    StartLimit Limit;
    EXPECT_GT(alarm(120), 100u);
  }
  EXPECT_EQ(alarm(0), 0u);
  unsetenv("POPLAR_START_SECONDS");
}

// srun starts torchrun's agents, whose processes inherit its variables.
TEST(Launcher, WhoIsToldItsRankNeedsNoMpi) {
  setenv("SLURM_PROCID", "1", 1);
  setenv("SLURM_STEP_NUM_TASKS", "2", 1);
  setenv("PMIX_RANK", "1", 1);
  EXPECT_TRUE(isStartedByMpi());
  EXPECT_EQ(getNumStarted(), 2);
  setenv("RANK", "5", 1);
  setenv("WORLD_SIZE", "8", 1);
  EXPECT_FALSE(isStartedByMpi());
  EXPECT_EQ(getNumStarted(), 8);
  setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  EXPECT_TRUE(isStartedByMpi());
  EXPECT_EQ(getNumStarted(), 4);
  for (const char *Name : {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMIX_RANK",
                           "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"})
    unsetenv(Name);
}

// Slurm sends it twice.
TEST(Launcher, TermMayBeRepeated) {
  StopSignals Signals;
  EXPECT_FALSE(StopSignals::isRequested());
  raise(SIGTERM);
  raise(SIGTERM);
  EXPECT_TRUE(StopSignals::isRequested());
}

/// Exit status of `Body` in a process whose parent has gone; -1 if it is
/// killed.
static int runOrphaned(const std::function<int()> &Body) {
  int Ends[2];
  EXPECT_EQ(pipe(Ends), 0);
  pid_t Child = fork();
  if (Child == 0) {
    pid_t Parent = getpid();
    if (fork() != 0)
      _exit(0);
    while (getppid() == Parent)
      usleep(1000);
    int Status = Body();
    _exit(write(Ends[1], &Status, sizeof Status) < 0);
  }
  close(Ends[1]);
  waitpid(Child, nullptr, 0);
  int Status = -1;
  EXPECT_GE(read(Ends[0], &Status, sizeof Status), 0);
  close(Ends[0]);
  return Status;
}

// As in a container whose first process is mpirun.
TEST(Launcher, MayBeTheFirstProcess) {
  setenv("PMIX_RANK", "0", 1);
  EXPECT_EQ(runOrphaned([] {
              endWithLauncher();
              return 7;
            }),
            7);
  unsetenv("PMIX_RANK");
}

TEST(Backend, UnknownOnesAreRefused) {
  CommOptions O;
  O.Backend = "smoke-signals";
  EXPECT_EQ(getMessage([&] { makeCommunicator(O); }),
            "unknown communicator 'smoke-signals'; use auto, self, mpi or "
            "tcp");
}

TEST(Backend, PluginsAreChecked) {
  CommOptions O;
  O.Backend = "mpi";
  auto Load = [&](const char *Path) {
    setenv("POPLAR_MPI_PLUGIN", Path, 1);
    std::string Message = getMessage([&] { makeCommunicator(O); });
    unsetenv("POPLAR_MPI_PLUGIN");
    return Message;
  };
  EXPECT_NE(Load("/nonexistent.so")
                .find("POPLAR_MPI_PLUGIN=/nonexistent.so "
                      "cannot be loaded: "),
            std::string::npos);
  EXPECT_EQ(Load("libm.so.6"),
            "libm.so.6 is not a transport plug-in of Poplar");
}

// So that it has a core when a message is due, also if the rank computes there.
TEST(CommStream, AsksForShortSlices) {
  onThreads(1, {}, [](CommStream &Stream) {
    // struct sched_attr: the slice is behind 24 bytes.
    uint64_t Attributes[6] = {};
    Stream.run([&](Communicator &) {
      syscall(SYS_sched_getattr, 0, Attributes, sizeof(Attributes), 0);
    });
    // Linux has slices of threads since version 6.12.
    EXPECT_TRUE(Attributes[3] == 100'000 || Attributes[3] == 0)
        << Attributes[3] << " ns";
  });
}

TEST(LinkModel, TransfersTakeTheirTimeAndHide) {
  // 2 MB at 100 MB/s: 20 ms on the link.
  constexpr int64_t Count = 1000000;
  CommOptions O;
  O.Link = parseLinkModel("1000,0.1");
  onThreads(2, O, [&](CommStream &Stream) {
    std::vector<int64_t> Bounds = getEqualBounds(Count, 2);
    std::vector<float> Full(Count, 1);
    Collective C;
    C.TheKind = Collective::AllGather;
    C.Bounds = Bounds.data();
    C.Send = Full.data() + Bounds[Stream.rank()];
    C.Receive = Full.data();
    Stream.run([](Communicator &Comm) { Comm.barrier(); });
    double LinkBefore = Stream.getStatistics().LinkSeconds;
    // Waited for at once, all of it shows.
    Clock::time_point Begin = Clock::now();
    Stream.wait(Stream.start(C));
    EXPECT_GE(Clock::now() - Begin, std::chrono::milliseconds(20));
    CommStatistics Before = Stream.getStatistics();
    EXPECT_GE(Before.getExposedSeconds(), 0.015);
    EXPECT_NEAR(Before.LinkSeconds - LinkBefore, 0.02, 0.001);
    EXPECT_EQ(Before.Kinds[Collective::AllGather].RemoteBytes, Count * 2);
    EXPECT_EQ(Before.Kinds[Collective::AllGather].LocalBytes, 0);
    // Behind a longer computation, none does, and it needs no processor.
    Stream.run([](Communicator &Comm) { Comm.barrier(); });
    CommStream::Ticket T = Stream.start(C);
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    Stream.wait(T);
    const CommStatistics &After = Stream.getStatistics();
    EXPECT_LT(After.getExposedSeconds() - Before.getExposedSeconds(), 0.01);
    EXPECT_GE(After.getThreadSeconds() - Before.getThreadSeconds(), 0.02);
    EXPECT_GT(After.getHiddenShare(), 0);
    EXPECT_EQ(After.Kinds[Collective::AllGather].Count, 2);
  });
}

// Messages to all others are under way together. What the planner counts on
// (Planner/Cluster/CollectiveLatency.h).
TEST(LinkModel, LatencyDoesNotGrowWithRanks) {
  constexpr double Latency = 0.2;
  CommOptions O;
  O.Link = parseLinkModel("200000,10");
  for (int Ranks : {2, 8})
    onThreads(Ranks, O, [&](CommStream &Stream) {
      std::vector<int64_t> Bounds = getEqualBounds(Ranks, Ranks);
      std::vector<float> Full(Ranks, 1);
      Collective C;
      C.TheKind = Collective::AllGather;
      C.Bounds = Bounds.data();
      C.Send = Full.data() + Bounds[Stream.rank()];
      C.Receive = Full.data();
      Stream.run([](Communicator &Comm) { Comm.barrier(); });
      Clock::time_point Begin = Clock::now();
      Stream.wait(Stream.start(C));
      std::chrono::duration<double> Seconds = Clock::now() - Begin;
      EXPECT_LT(Seconds.count(), 2.5 * Latency) << Ranks << " ranks";
    });
}

TEST(TwoLevel, CrossesBetweenNodesOncePerNode) {
  constexpr int64_t Count = 4000;
  for (bool TwoLevel : {false, true}) {
    ThreadWorld World(4, {0, 0, 1, 1});
    CommOptions O;
    O.Messages.TwoLevel = TwoLevel;
    std::atomic<int64_t> Remote{0};
    std::vector<std::thread> Threads;
    for (int Rank = 0; Rank < 4; ++Rank)
      Threads.emplace_back([&, Rank] {
        auto C = makeThreadCommunicator(World, Rank, O);
        std::vector<float> Values(Count, 1);
        C->allReduce(Values.data(), Values.data(), Type::F32,
                     getEqualBounds(Count, 4).data());
        EXPECT_EQ(Values, std::vector<float>(Count, 4));
        Remote += C->getRemoteBytes();
      });
    for (std::thread &T : Threads)
      T.join();
    // Each slice crosses to the other node, and comes from it, once per node;
    // else once per rank there.
    EXPECT_EQ(Remote, 2 * Count * 4 * (TwoLevel ? 1 : 2));
  }
}

TEST(Faults, OneRanksErrorReachesTheOthers) {
  ThreadWorld World(3);
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < 3; ++Rank)
    Threads.emplace_back([&, Rank] {
      CommStream Stream(
          [&] { return makeThreadCommunicator(World, Rank, {}); });
      if (Rank == 1)
        return World.abort("rank 1: out of memory");
      auto Barrier = [&] { Stream.run([](Communicator &C) { C.barrier(); }); };
      EXPECT_EQ(getMessage(Barrier), "rank 1: out of memory");
    });
  for (std::thread &T : Threads)
    T.join();
}

TEST(Faults, AStreamCanBeAbandoned) {
  // The other rank never comes; the destructor must not wait for it.
  ThreadWorld World(2);
  std::vector<int64_t> Bounds = {0, 5, 10};
  std::vector<float> Values(10);
  CommStream Stream([&] { return makeThreadCommunicator(World, 0, {}); });
  Collective C;
  C.TheKind = Collective::AllReduce;
  C.Send = C.Receive = Values.data();
  C.Bounds = Bounds.data();
  Stream.start(C);
}

TEST(Faults, MemoryOutlivesCollectives) {
  // The other rank never comes, and the memory goes with the exception.
  ThreadWorld World(2);
  CommStream Stream([&] { return makeThreadCommunicator(World, 0, {}); });
  std::vector<int64_t> Bounds = {0, 5, 10};
  auto Compute = [&] {
    std::vector<float> Values(10);
    CommStream::MemoryGuard Guard(Stream);
    Collective C;
    C.TheKind = Collective::AllReduce;
    C.Send = C.Receive = Values.data();
    C.Bounds = Bounds.data();
    Stream.start(C);
    fail("out of memory");
  };
  EXPECT_EQ(getMessage(Compute), "out of memory");
  EXPECT_EQ(getMessage([&] { Stream.waitAll(); }), "interrupted");
}

/// How many sockets of this process accept connections.
static int countListeners() {
  int Count = 0;
  for (int FD = 0; FD < 1024; ++FD) {
    int Accepts = 0;
    socklen_t Length = sizeof Accepts;
    if (getsockopt(FD, SOL_SOCKET, SO_ACCEPTCONN, &Accepts, &Length) == 0)
      Count += Accepts;
  }
  return Count;
}

// Connections of strangers, which nobody accepts any more, would keep the
// watchdog busy.
TEST(Watchdog, ListensUntilAllAreThere) {
  onThreads(2, {}, [](CommStream &Stream) {
    Watchdog Dog(Stream, "test");
    EXPECT_EQ(countListeners(), 0);
    Dog.close();
  });
}

TEST(Trace, IsValidJSON) {
  std::string Path = testing::TempDir() + "poplar-trace.json";
  onThreads(2, {}, [&](CommStream &Stream) {
    std::vector<int64_t> Bounds = {0, 100, 200};
    std::vector<float> Values(200);
    Collective C;
    C.TheKind = Collective::AllReduce;
    C.Send = C.Receive = Values.data();
    C.Bounds = Bounds.data();
    C.Bucket = 17;
    for (int I = 0; I < 200; ++I) // more than there is room for
      Stream.wait(Stream.start(C));
    Stream.run([&](Communicator &Comm) {
      Stream.getTrace()->write(Comm, Path, "a \"quoted\" host");
    });
  });
  std::ifstream File(Path);
  std::stringstream Text;
  Text << File.rdbuf();
  json::Value Root = json::parse(Text.str(), Path);
  const json::Value *Events = Root.find("traceEvents");
  ASSERT_TRUE(Events);
  int NumCollectives = 0;
  for (const json::Value &Event : Events->elements())
    NumCollectives += Event.string("name", "") == "all-reduce" &&
                      Event.find("args")->integer("number", 0) == 17;
  EXPECT_EQ(NumCollectives, 200); // 100 of each rank
  EXPECT_NE(Text.str().find("100 events did not fit"), std::string::npos);
}

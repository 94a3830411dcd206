//===- LinkBenchmark.cpp - How fast the links of a job are ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages between two ranks, and collectives of all ranks, of growing size;
// through their times goes the line latency + bytes / bandwidth, which is what
// the planner knows of a link. Nodes with the same devices are one class: of
// every two classes one pair of nodes is measured, and of every class the
// inside of one node.
//
// A rank cannot tell when a message left another one, so what is timed is a
// round trip:
//
//   first   ----- bytes ---->   second
//           <---- 4 bytes ---
//
// The slope is that of the one direction; latency is taken to be the same both
// ways. Messages are of the hosts' memory. Collectives are of the memory that
// training has: a GPU's, where a library reaches it.
//
// Their overhead is what computation loses while they are under way, on all
// cores of all ranks: to the thread of the communicator, and to the kernel,
// which does its part on whichever core it is called. Clocks of threads do not
// tell: where cores are idle, the kernel's part is nobody's, and elsewhere it
// is charged to the thread that it interrupts.
//
//===----------------------------------------------------------------------===//

#include "commands/LinkFit.h"
#include "job/Group.h"
#include "job/Job.h"
#include "program/Device.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/JSON.h"
#include "training/Trainer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

using namespace poplar::runtime;

namespace {

/// Computation on all cores of a rank while messages are measured.
class Computation {
public:
  explicit Computation(int64_t Threads) {
    for (int64_t T = 0; T < Threads; ++T)
      Workers.emplace_back([this] {
        Device::occupyCore([this] {
          ++Pieces;
          return !Ends;
        });
      });
  }
  ~Computation() {
    Ends = true;
    for (std::thread &Worker : Workers)
      Worker.join();
  }
  double count() const { return static_cast<double>(Pieces); }

private:
  std::atomic<int64_t> Pieces{0};
  std::atomic<bool> Ends{false};
  std::vector<std::thread> Workers;
};

/// Nodes of the plan with their ranks, and what is alike.
struct Node {
  std::string Name;
  std::vector<int> Ranks;
  /// The devices, by which nodes are alike.
  std::string Class;
};

/// Two nodes between which messages are measured, or the same one twice.
struct Pair {
  size_t From, To;
};

class LinkBenchmark {
public:
  LinkBenchmark(const PoplarProgram &Program, Group &Ranks, Device &D);
  void run(const std::string &Out);

private:
  LinkFit measureMessages(const Pair &P);
  void runCollective(comm::Communicator &C, PoplarCollectiveKind Kind,
                     int64_t Elements);
  LinkFit measureCollective(PoplarCollectiveKind Kind);
  double measureLoss(PoplarCollectiveKind Kind);
  double measureOverhead();
  template <typename Function>
  LinkFit measure(int Timer, const char *Phase, Function &&Body);
  std::vector<Pair> getPairs() const;

  const PoplarProgram &Program;
  Group &Ranks;
  std::vector<Node> Nodes;
  std::vector<float> Buffer, Shard;
  /// What collectives are of: these, or memory of the device as large.
  float *Whole, *Part;
};

} // namespace

/// Sizes of messages, and of all shards of a collective together: until one
/// takes longer than MostSeconds.
static constexpr std::array<int64_t, 6> Sizes = {4,       1 << 10, 1 << 14,
                                                 1 << 18, 1 << 21, 1 << 23};
static constexpr double MostSeconds = 1, SecondsPerSize = 0.2;
/// Bytes for the test of what computation loses: as large as messages of
/// pipelines, or parts of collectives.
static constexpr int64_t LossBytes = 1 << 19;
static constexpr double LossSeconds = 0.3;
static constexpr int LossRounds = 5;

LinkBenchmark::LinkBenchmark(const PoplarProgram &Program, Group &Ranks,
                             Device &D)
    : Program(Program), Ranks(Ranks), Buffer(Sizes.back() / sizeof(float)),
      Shard(Buffer.size()),
      Whole(reinterpret_cast<float *>(D.allocate(Sizes.back()))),
      Part(reinterpret_cast<float *>(D.allocate(Sizes.back()))) {
  D.synchronize(); // it is zeroed
  Ranks.reach(D);
  if (!Ranks.reachesDevice()) {
    Whole = Buffer.data();
    Part = Shard.data();
  }
  for (int R = 0; R < Program.world_size; ++R) {
    const PoplarRank &Rank = Program.ranks[R];
    auto Known = std::find_if(Nodes.begin(), Nodes.end(), [&](const Node &N) {
      return N.Name == Rank.node;
    });
    if (Known == Nodes.end())
      Known = Nodes.insert(Nodes.end(), {Rank.node, {}, ""});
    Known->Ranks.push_back(R);
    Known->Class += std::string(Rank.device_type) + " ";
  }
}

std::vector<Pair> LinkBenchmark::getPairs() const {
  std::vector<Pair> Pairs;
  std::set<std::tuple<std::string, std::string, bool, bool>> Known;
  for (size_t I = 0; I < Nodes.size(); ++I)
    for (size_t J = 0; J < Nodes.size(); ++J) {
      if (I == J && Nodes[I].Ranks.size() < 2)
        continue;
      if (Known.insert({Nodes[I].Class, Nodes[J].Class, I < J, I == J}).second)
        Pairs.push_back({I, J});
    }
  return Pairs;
}

/// `Body(communicator, elements)` is what all ranks do, and `Timer` times.
template <typename Function>
LinkFit LinkBenchmark::measure(int Timer, const char *Phase, Function &&Body) {
  std::optional<LinkFit> Result;
  Ranks.setPhase(Phase, LongPhase);
  Ranks.stream().run([&](comm::Communicator &C) {
    using Clock = std::chrono::steady_clock;
    auto Time = [&](int64_t Elements) {
      auto Begin = Clock::now();
      Body(C, Elements);
      return std::chrono::duration<double>(Clock::now() - Begin).count();
    };
    std::vector<MessageTime> Times;
    for (int64_t Bytes : Sizes) {
      int64_t Elements = Bytes / static_cast<int64_t>(sizeof(float));
      C.barrier();
      double Warmup = Time(Elements);
      int64_t Repetitions =
          static_cast<int64_t>(std::clamp(SecondsPerSize / Warmup, 3.0, 100.0));
      C.broadcast(&Repetitions, sizeof(Repetitions), Timer);
      std::vector<double> Seconds;
      for (int64_t I = 0; I < Repetitions; ++I)
        Seconds.push_back(Time(Elements));
      std::nth_element(Seconds.begin(), Seconds.begin() + Repetitions / 2,
                       Seconds.end());
      double Median = Seconds[static_cast<size_t>(Repetitions / 2)];
      C.broadcast(&Median, sizeof(Median), Timer);
      Times.push_back({static_cast<double>(Bytes), Median});
      if (Median > MostSeconds)
        break;
    }
    Result = LinkFit::get(Times);
  });
  if (!Result)
    fail("messages of ", Sizes.back(), " bytes took no longer than those of ",
         Sizes.front(), "; is anything else running on these machines?");
  return *Result;
}

LinkFit LinkBenchmark::measureMessages(const Pair &P) {
  int First = Nodes[P.From].Ranks.front();
  int Second = Nodes[P.To].Ranks[P.From == P.To ? 1 : 0];
  // A gather with one shard is a message.
  auto Send = [&](comm::Communicator &C, int From, int To, int64_t Elements) {
    std::vector<int64_t> Bounds(static_cast<size_t>(C.size()) + 1, 0);
    std::fill(Bounds.begin() + From + 1, Bounds.end(), Elements);
    C.gather(Shard.data(), Buffer.data(), comm::Type::F32, Bounds.data(), To);
  };
  LinkFit Result = measure(First, "measuring a link",
                           [&](comm::Communicator &C, int64_t Elements) {
                             Send(C, First, Second, Elements);
                             Send(C, Second, First, 1);
                           });
  Result.Latency /= 2;
  return Result;
}

void LinkBenchmark::runCollective(comm::Communicator &C,
                                  PoplarCollectiveKind Kind, int64_t Elements) {
  std::vector<int64_t> Bounds = comm::getEqualBounds(Elements, C.size());
  switch (Kind) {
  case POPLAR_ALL_GATHER:
    C.allGather(Part, comm::Type::F32, Whole, comm::Type::F32, comm::Type::F32,
                Bounds.data());
    break;
  case POPLAR_REDUCE_SCATTER:
    C.reduceScatter(Whole, Part, false, comm::Type::F32, Bounds.data());
    break;
  case POPLAR_ALL_REDUCE:
    C.allReduce(Whole, Whole, comm::Type::F32, Bounds.data());
  }
  // It has taken until all ranks have it.
  C.barrier();
}

LinkFit LinkBenchmark::measureCollective(PoplarCollectiveKind Kind) {
  return measure(0, "measuring collectives",
                 [&](comm::Communicator &C, int64_t Elements) {
                   runCollective(C, Kind, Elements);
                 });
}

/// Seconds of computation that a collective of LossBytes takes away, the median
/// of several times. Cores are not always equally fast: what they compute in
/// peace is looked at each time.
double LinkBenchmark::measureLoss(PoplarCollectiveKind Kind) {
  using Clock = std::chrono::steady_clock;
  Computation Meanwhile(Program.ranks[Ranks.rank()].threads);
  std::vector<double> Lost;
  Ranks.setPhase("measuring overhead", LongPhase);
  Ranks.stream().run([&](comm::Communicator &C) {
    constexpr int64_t Elements = LossBytes / sizeof(float);
    // Seconds of `Body`, and pieces computed in this time.
    auto Observe = [&](auto &&Body) {
      auto Begin = Clock::now();
      double Before = Meanwhile.count();
      Body();
      std::chrono::duration<double> Seconds = Clock::now() - Begin;
      return std::pair(Seconds.count(), Meanwhile.count() - Before);
    };
    auto Repeat = [&](int64_t Times) {
      for (int64_t I = 0; I < Times; ++I)
        runCollective(C, Kind, Elements);
    };
    double Once = Observe([&] { Repeat(1); }).first;
    int64_t Times =
        std::clamp<int64_t>(static_cast<int64_t>(LossSeconds / Once), 1, 1000);
    C.broadcast(&Times, sizeof(Times), 0);
    for (int Round = 0; Round < LossRounds; ++Round) {
      C.barrier();
      auto [Quiet, Free] = Observe([] {
        std::this_thread::sleep_for(
            std::chrono::duration<double>(LossSeconds / 2));
      });
      C.barrier();
      auto [Busy, Done] = Observe([&] { Repeat(Times); });
      Lost.push_back((Busy - Done * Quiet / Free) / static_cast<double>(Times));
    }
  });
  std::nth_element(Lost.begin(), Lost.begin() + LossRounds / 2, Lost.end());
  return std::max(Lost[LossRounds / 2], 0.0);
}

/// What a byte that a rank sends or receives takes away from its computation,
/// the most of any rank: half of them are gathered, half summed. GPUs have none
/// of it.
double LinkBenchmark::measureOverhead() {
  auto Own = std::find_if(Nodes.begin(), Nodes.end(), [&](const Node &N) {
    return std::count(N.Ranks.begin(), N.Ranks.end(), Ranks.rank()) > 0;
  });
  double Copies = static_cast<double>(Nodes.size() + Own->Ranks.size()) - 2;
  double Size = static_cast<double>(Program.world_size);
  // Bytes that a collective moves, as CollectiveCost.h has them.
  double Moved = LossBytes * ((Size - 1) / Size + Copies / Size);
  double Overhead = Program.gpu ? 0
                                : (measureLoss(POPLAR_ALL_GATHER) +
                                   measureLoss(POPLAR_REDUCE_SCATTER)) /
                                      2 / Moved;
  // As an integer, because only integers have a maximum over ranks.
  int64_t Most = std::llround(Overhead * 1e18);
  Ranks.max(&Most, 1);
  return static_cast<double>(Most) * 1e-18;
}

/// A number as JSON and this project's files write it.
static std::string formatNumber(double Value) {
  char Text[32];
  std::snprintf(Text, sizeof(Text), "%.6g", Value);
  return Text;
}

static void print(const std::string &What, const LinkFit &L) {
  std::printf("  %-40s %10.1f us %10.3f GB/s   within %.0f %%\n", What.c_str(),
              L.Latency * 1e6, L.Bandwidth * 1e-9, 100 * L.Error);
  std::fflush(stdout);
}

void LinkBenchmark::run(const std::string &Out) {
  bool Leads = Ranks.rank() == 0;
  if (Leads)
    std::printf("latency + bytes / bandwidth; the mean distance of a "
                "measurement from it\n");
  constexpr std::pair<PoplarCollectiveKind, const char *> Collectives[] = {
      {POPLAR_ALL_GATHER, "all-gather"},
      {POPLAR_REDUCE_SCATTER, "reduce-scatter"},
      {POPLAR_ALL_REDUCE, "all-reduce"}};
  for (auto [Kind, Name] : Collectives) {
    LinkFit L = measureCollective(Kind);
    if (Leads)
      print(std::string(Name) + " of all ranks", L);
  }
  double Overhead = measureOverhead();
  if (Leads)
    std::printf("  %-40s %10.3f ns\n",
                "of computation, per byte sent or received", Overhead * 1e9);
  std::ostringstream Links;
  for (const Pair &P : getPairs()) {
    const Node &From = Nodes[P.From], &To = Nodes[P.To];
    LinkFit L = measureMessages(P);
    if (!Leads)
      continue;
    print(P.From == P.To ? "inside " + From.Name
                         : "from " + From.Name + " to " + To.Name,
          L);
    // What was measured on one pair holds for all of their classes.
    for (size_t A = 0; A < Nodes.size(); ++A)
      for (size_t B = 0; B < Nodes.size(); ++B) {
        if (Nodes[A].Class != From.Class || Nodes[B].Class != To.Class ||
            (A < B) != (P.From < P.To) || (A == B) != (P.From == P.To))
          continue;
        std::string First = json::quote(Nodes[A].Name),
                    Second = json::quote(Nodes[B].Name);
        Links << (Links.tellp() > 0 ? ",\n" : "") << "  {"
              << (A == B ? "\"inside\": [" + First + "]"
                         : "\"from\": " + First + ", \"to\": " + Second)
              << ", \"latency\": " << formatNumber(L.Latency)
              << ", \"bandwidth\": " << formatNumber(L.Bandwidth)
              << ", \"overhead\": " << formatNumber(Overhead)
              << ", \"source\": \"poplar cluster links\"}";
      }
  }
  if (Leads)
    writeFileAtomically(Out, "{\"links\": [\n" + Links.str() + "\n]}\n");
}

void poplar::runtime::runLinks(const PoplarProgram &Program, const Options &O) {
  if (Program.world_size == 1)
    fail("a job of one rank has no links");
  runJob(Program, O, [&](Group *Ranks) {
    Device D(Program, Ranks->rank(), 1);
    comm::CommStream::MemoryGuard Guard(Ranks->stream());
    LinkBenchmark(Program, *Ranks, D).run(O.Out);
  });
}

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
// training has: a GPU's, where a library reaches it. What the thread of the
// communicator needs of a core while they are under way is their overhead.
//
//===----------------------------------------------------------------------===//

#include "Cores.h"
#include "Device.h"
#include "Error.h"
#include "Files.h"
#include "Group.h"
#include "JSON.h"
#include "Job.h"
#include "Trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>
#include <tuple>

using namespace poplar::runtime;

namespace {

/// Median seconds of repetitions at one size, and the time that the thread of
/// the communicator has had a core, a repetition.
struct Point {
  double Bytes, Seconds, Processor;
};

struct Line {
  double Latency = 0, Bandwidth = 0;
  /// The largest distance of a point from the line, relative.
  double Error = 0;
  /// Processor seconds per byte of the largest.
  double Processor = 0;
};

/// Nodes of the plan with their ranks, and what is alike.
struct Node {
  std::string Name;
  std::vector<int> Ranks;
  /// The devices, by which nodes are alike.
  std::string Class;
};

/// From one node to another, or inside one.
struct Pair {
  size_t From, To;
};

class LinkBenchmark {
public:
  LinkBenchmark(const PoplarProgram &Program, Group &Ranks, Device &D);
  void run(const std::string &Out);

private:
  Line measureMessages(const Pair &P);
  Line measureCollective(PoplarCollectiveKind Kind);
  double getOverhead(const Line &Gather, const Line &Reduce);
  template <typename Function>
  Line measure(int Timer, const char *Phase, Function &&Body);
  std::vector<Pair> getPairs() const;

  const PoplarProgram &Program;
  Group &Ranks;
  std::vector<Node> Nodes;
  std::vector<float> Buffer, Shard;
  /// What collectives are of: these, or memory of the device as large.
  float *Whole, *Part;
};

} // namespace

/// Of messages, and of all shards of a collective together: until one takes
/// longer than MostSeconds.
static constexpr std::array<int64_t, 6> Sizes = {4,       1 << 10, 1 << 14,
                                                 1 << 18, 1 << 21, 1 << 23};
static constexpr double MostSeconds = 1, SecondsPerSize = 0.2;

/// Least squares of relative distances: with absolute ones, the largest message
/// alone would decide.
static Line fitLine(const std::vector<Point> &Points) {
  double S = 0, SX = 0, SY = 0, SXX = 0, SXY = 0;
  for (const Point &P : Points) {
    double Weight = 1 / (P.Seconds * P.Seconds);
    S += Weight;
    SX += Weight * P.Bytes;
    SY += Weight * P.Seconds;
    SXX += Weight * P.Bytes * P.Bytes;
    SXY += Weight * P.Bytes * P.Seconds;
  }
  double Slope = (S * SXY - SX * SY) / (S * SXX - SX * SX);
  double Constant = (SY - Slope * SX) / S;
  if (!(Slope > 0))
    fail("messages of ", Sizes.back(), " bytes took no longer than those of ",
         Sizes.front(), "; is anything else running on these machines?");
  Line Result = {std::max(Constant, 0.0), 1 / Slope, 0};
  for (const Point &P : Points)
    Result.Error =
        std::max(Result.Error,
                 std::abs(Constant + Slope * P.Bytes - P.Seconds) / P.Seconds);
  return Result;
}

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
Line LinkBenchmark::measure(int Timer, const char *Phase, Function &&Body) {
  Line Result;
  Ranks.setPhase(Phase, LongPhase);
  Ranks.stream().run([&](comm::Communicator &C) {
    using Clock = std::chrono::steady_clock;
    auto Time = [&](int64_t Elements) {
      auto Begin = Clock::now();
      Body(C, Elements);
      return std::chrono::duration<double>(Clock::now() - Begin).count();
    };
    std::vector<Point> Points;
    for (int64_t Bytes : Sizes) {
      int64_t Elements = Bytes / static_cast<int64_t>(sizeof(float));
      C.barrier();
      double Warmup = Time(Elements);
      int64_t Repetitions =
          static_cast<int64_t>(std::clamp(SecondsPerSize / Warmup, 3.0, 100.0));
      C.broadcast(&Repetitions, sizeof(Repetitions), Timer);
      std::vector<double> Seconds;
      double Processor = getThreadSeconds();
      for (int64_t I = 0; I < Repetitions; ++I)
        Seconds.push_back(Time(Elements));
      Processor =
          (getThreadSeconds() - Processor) / static_cast<double>(Repetitions);
      std::nth_element(Seconds.begin(), Seconds.begin() + Repetitions / 2,
                       Seconds.end());
      double Median = Seconds[static_cast<size_t>(Repetitions / 2)];
      C.broadcast(&Median, sizeof(Median), Timer);
      Points.push_back({static_cast<double>(Bytes), Median, Processor});
      if (Median > MostSeconds)
        break;
    }
    Result = fitLine(Points);
    Result.Processor = Points.back().Processor / Points.back().Bytes;
  });
  return Result;
}

Line LinkBenchmark::measureMessages(const Pair &P) {
  int First = Nodes[P.From].Ranks.front();
  int Second = Nodes[P.To].Ranks[P.From == P.To ? 1 : 0];
  // A gather with one shard is a message.
  auto Send = [&](comm::Communicator &C, int From, int To, int64_t Elements) {
    std::vector<int64_t> Bounds(static_cast<size_t>(C.size()) + 1, 0);
    std::fill(Bounds.begin() + From + 1, Bounds.end(), Elements);
    C.gather(Shard.data(), Buffer.data(), comm::Type::F32, Bounds.data(), To);
  };
  Line Result = measure(First, "measuring a link",
                        [&](comm::Communicator &C, int64_t Elements) {
                          Send(C, First, Second, Elements);
                          Send(C, Second, First, 1);
                        });
  Result.Latency /= 2;
  return Result;
}

Line LinkBenchmark::measureCollective(PoplarCollectiveKind Kind) {
  return measure(
      0, "measuring collectives", [&](comm::Communicator &C, int64_t Elements) {
        std::vector<int64_t> Bounds = comm::getEqualBounds(Elements, C.size());
        switch (Kind) {
        case POPLAR_ALL_GATHER:
          C.allGather(Part, comm::Type::F32, Whole, comm::Type::F32,
                      comm::Type::F32, Bounds.data());
          break;
        case POPLAR_REDUCE_SCATTER:
          C.reduceScatter(Whole, Part, false, comm::Type::F32, Bounds.data());
          break;
        case POPLAR_ALL_REDUCE:
          C.allReduce(Whole, Whole, comm::Type::F32, Bounds.data());
        }
        // It has taken until all ranks have it.
        C.barrier();
      });
}

/// What a byte that a rank sends or receives takes away from its computation,
/// the most of any rank: half of them are gathered, half summed. Threads of a
/// CPU share the work; GPUs have none of it.
double LinkBenchmark::getOverhead(const Line &Gather, const Line &Reduce) {
  auto Own = std::find_if(Nodes.begin(), Nodes.end(), [&](const Node &N) {
    return std::count(N.Ranks.begin(), N.Ranks.end(), Ranks.rank()) > 0;
  });
  double Copies = static_cast<double>(Nodes.size() + Own->Ranks.size()) - 2;
  double Size = static_cast<double>(Program.world_size);
  // Of the bytes of a collective, as CollectiveCost.h has them.
  double Moved = (Size - 1) / Size + Copies / Size;
  double Overhead =
      Program.gpu
          ? 0
          : (Gather.Processor + Reduce.Processor) / 2 / Moved /
                static_cast<double>(Program.ranks[Ranks.rank()].threads);
  // In integers, of which there is a maximum.
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

static void print(const std::string &What, const Line &L) {
  std::printf("  %-40s %10.1f us %10.3f GB/s   within %.0f %%\n", What.c_str(),
              L.Latency * 1e6, L.Bandwidth * 1e-9, 100 * L.Error);
  std::fflush(stdout);
}

void LinkBenchmark::run(const std::string &Out) {
  bool Leads = Ranks.rank() == 0;
  if (Leads)
    std::printf("latency + bytes / bandwidth; the largest distance of a "
                "measurement from it\n");
  constexpr std::pair<PoplarCollectiveKind, const char *> Collectives[] = {
      {POPLAR_ALL_GATHER, "all-gather"},
      {POPLAR_REDUCE_SCATTER, "reduce-scatter"},
      {POPLAR_ALL_REDUCE, "all-reduce"}};
  std::array<Line, 3> Lines;
  for (auto [Kind, Name] : Collectives) {
    Lines[Kind] = measureCollective(Kind);
    if (Leads)
      print(std::string(Name) + " of all ranks", Lines[Kind]);
  }
  double Overhead =
      getOverhead(Lines[POPLAR_ALL_GATHER], Lines[POPLAR_REDUCE_SCATTER]);
  if (Leads)
    std::printf("  %-40s %10.3f ns\n",
                "of computation, per byte sent or received", Overhead * 1e9);
  std::ostringstream Links;
  for (const Pair &P : getPairs()) {
    const Node &From = Nodes[P.From], &To = Nodes[P.To];
    Line L = measureMessages(P);
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

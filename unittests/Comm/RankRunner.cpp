//===- RankRunner.cpp - Runs a test on all ranks of a group ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"
#include "DeviceBuffers.h"
#include "comm/Islands.h"
#include "comm/ThreadTransport.h"
#include "cuda/Nccl.h"
#include "cuda/NcclIsland.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sstream>

using namespace poplar::runtime::comm;

static CommOptions Options;
static int NumThreads = 1;
/// The one of this process, unless ranks are threads.
static std::unique_ptr<CommStream> Process;

static std::string IslandText;
static bool Uniform = false, Ordered = false, MaySkip = false;

const CommOptions &getOptions() { return Options; }
bool haveIslands() { return !IslandText.empty(); }
bool isUniform() { return Uniform; }

/// The offer of a rank whose island has this number, or none.
static IslandOffer makeOffer(const std::string &Island, int Rank) {
  IslandOffer Offer;
  if (Island == "-")
    return Offer;
  Offer.Library = poplar::runtime::cuda::nccl::Nccl::get().Name;
  // Apart from other islands, which have the same version here.
  Offer.Library += ", island " + Island;
  Offer.Device = "GPU " + std::to_string(Rank);
  return Offer;
}

/// Why the islands cannot be had here; empty if they can.
static std::string findObstacle() {
  namespace cuda = poplar::runtime::cuda;
  try {
    int Count = 0;
    cuda::check(cuda::Driver::get().cuDeviceGetCount(&Count), "count GPUs");
    cuda::nccl::Nccl::get();
    auto Ranks = std::count(IslandText.begin(), IslandText.end(), ',') + 1;
    if (Count < Ranks)
      return std::to_string(Count) + (Count == 1 ? " GPU is" : " GPUs are") +
             " here for " + std::to_string(Ranks) +
             " ranks, and NCCL refuses two on one";
    return "";
  } catch (const std::exception &E) {
    return E.what();
  }
}

/// Puts islands on top of the communicator, as the text has them.
static void joinIslands(CommStream &Stream) {
  std::vector<std::string> Numbers;
  std::istringstream List(IslandText);
  for (std::string Number; std::getline(List, Number, ',');)
    Numbers.push_back(Number);
  if (Numbers.size() != static_cast<size_t>(Stream.size()))
    throw std::runtime_error("--islands does not name every rank");
  Stream.extend([&](Communicator &C) -> std::unique_ptr<Communicator> {
    int GPU = C.rank();
    Islands Plan;
    if (C.size() == 1)
      // Nobody needs a library for that, but one can be tested so.
      Plan = {{0}, {true}, {}, "collectives of rank 0, alone: NCCL\n"};
    else
      Plan = planIslands(
          exchange(C, makeOffer(Numbers[static_cast<size_t>(GPU)], GPU)),
          C.getTopology());
    Plan.Uniform.assign(Numbers.size(), Uniform);
    if (GPU == 0)
      std::printf("%s", Plan.Description.c_str());
    namespace cuda = poplar::runtime::cuda;
    std::unique_ptr<Communicator> Made = makeIslands(
        C, Plan,
        {cuda::makeNcclId, [&](int Place, int Size, const std::string &Id) {
           return cuda::joinNccl(cuda::makeNcclStream(GPU), Place, Size, Id, {},
                                 C.isInterrupted());
         }});
    return Made && !Ordered ? onDevice(std::move(Made), GPU) : std::move(Made);
  });
}

void onEachStream(const std::function<void(CommStream &)> &Body) {
  if (Process) {
    // Other processes cannot go on without this one.
    try {
      return Body(*Process);
    } catch (const std::exception &E) {
      std::fprintf(stderr, "rank %d: error: %s\n", Process->rank(), E.what());
      std::_Exit(1);
    }
  }
  ThreadWorld World(NumThreads);
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < NumThreads; ++Rank)
    Threads.emplace_back([&, Rank] {
      try {
        CommStream Stream(
            [&] { return makeThreadCommunicator(World, Rank, Options); });
        Body(Stream);
        Stream.close();
      } catch (const std::exception &E) {
        ADD_FAILURE() << "rank " << Rank << ": " << E.what();
        World.abort(E.what());
      }
    });
  for (std::thread &T : Threads)
    T.join();
}

void onEachRank(const std::function<void(Communicator &)> &Body) {
  onEachStream([&](CommStream &Stream) { Stream.run(Body); });
}

int main(int Argc, char **Argv) {
  testing::InitGoogleTest(&Argc, Argv);
  std::string Backend = "self";
  for (int I = 1; I + 1 < Argc; I += 2) {
    std::string Option = Argv[I], Value = Argv[I + 1];
    if (Option == "--backend")
      Backend = Value;
    else if (Option == "--ranks")
      NumThreads = std::atoi(Value.c_str());
    else if (Option == "--max-elements")
      Options.Messages.MaxElements = std::atoll(Value.c_str());
    else if (Option == "--link-delay")
      Options.Link = parseLinkModel(Value);
    else if (Option == "--islands")
      IslandText = Value;
    else if (Option == "--uniform")
      Uniform = Value == "1";
    else if (Option == "--ordered")
      Ordered = Value == "1";
    else if (Option == "--or-skip")
      MaySkip = Value == "1";
    else
      return std::fprintf(stderr, "unknown option %s\n", Argv[I]), 2;
  }
  Options.Backend = Backend;
  if (std::string Obstacle = MaySkip ? findObstacle() : ""; !Obstacle.empty())
    return std::printf("skipped: %s\n", Obstacle.c_str()), 0;
  if (Backend != "threads")
    Process =
        std::make_unique<CommStream>([] { return makeCommunicator(Options); });
  if (Process && !IslandText.empty()) {
    try {
      joinIslands(*Process);
    } catch (const std::exception &E) {
      return std::fprintf(stderr, "rank %d: error: %s\n", Process->rank(),
                          E.what()),
             1;
    }
  }
  // One rank's account is enough, unless it fails.
  testing::TestEventListeners &Listeners =
      testing::UnitTest::GetInstance()->listeners();
  if (Process && Process->rank() != 0)
    delete Listeners.Release(Listeners.default_result_printer());
  int Result = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->successful_test_count() == 0) {
    std::fprintf(stderr, "no test was run\n");
    Result = 1;
  }
  if (Process) {
    int64_t Failed = Result;
    Process->run([&](Communicator &C) { C.allReduceMax(&Failed, 1); });
    Result = static_cast<int>(Failed);
    Process->close();
  }
  return Result;
}

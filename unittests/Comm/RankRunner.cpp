//===- RankRunner.cpp - Runs a test on all ranks of a group ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankRunner.h"
#include "comm/ThreadTransport.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

using namespace poplar::runtime::comm;

static CommOptions Options;
static int NumThreads = 1;
/// The one of this process, unless ranks are threads.
static std::unique_ptr<Communicator> Process;

const CommOptions &getOptions() { return Options; }

void onEachRank(const std::function<void(Communicator &)> &Body) {
  auto Run = [&](Communicator &C) {
    try {
      Body(C);
    } catch (const std::exception &E) {
      ADD_FAILURE() << "rank " << C.rank() << ": " << E.what();
      C.abort(E.what());
    }
  };
  if (Process)
    return Run(*Process);
  ThreadWorld World(NumThreads);
  std::vector<std::thread> Threads;
  for (int Rank = 0; Rank < NumThreads; ++Rank)
    Threads.emplace_back(
        [&, Rank] { Run(*makeThreadCommunicator(World, Rank, Options)); });
  for (std::thread &T : Threads)
    T.join();
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
    else
      return std::fprintf(stderr, "unknown option %s\n", Argv[I]), 2;
  }
  Options.Backend = Backend;
  if (Backend != "threads")
    Process = makeCommunicator(Options);
  // One rank's account is enough, unless it fails.
  if (Process && Process->rank() != 0)
    delete testing::UnitTest::GetInstance()->listeners().Release(
        testing::UnitTest::GetInstance()->listeners().default_result_printer());
  int Result = RUN_ALL_TESTS();
  if (Process) {
    int64_t Failed = Result;
    Process->allReduceMax(&Failed, 1);
    Result = static_cast<int>(Failed);
    Process->close();
  }
  return Result;
}

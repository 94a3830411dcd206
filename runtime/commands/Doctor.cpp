//===- Doctor.cpp - Whether a job can run ---------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "commands/Doctor.h"
#include "job/Diagnosis.h"
#include "job/Group.h"
#include "job/Job.h"
#include "support/Error.h"
#include "training/Device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace poplar::runtime;

/// Elements that are added up, and seconds that this may take.
static constexpr int64_t Elements = 1 << 20;
static constexpr double Seconds = 2;

/// Of all ranks, on all ranks.
static std::vector<Facts> gatherFacts(Group &Ranks, const Facts &Mine,
                                      int64_t Size) {
  std::string All;
  Ranks.stream().run([&](comm::Communicator &C) {
    for (const std::string &One : C.gatherStrings(toText(Mine), 0))
      All += One + '\0';
  });
  All = Ranks.broadcast(All);
  std::vector<Facts> Result;
  for (size_t Begin = 0; Result.size() < static_cast<size_t>(Size);) {
    size_t End = All.find('\0', Begin);
    Result.push_back(parseFacts(All.substr(Begin, End - Begin)));
    Begin = End + 1;
  }
  return Result;
}

/// Seconds that this rank's clock is ahead of rank 0's: of moments right behind
/// a barrier, the median, which is as good as the ranks leave it together.
static double measureClock(Group &Ranks, int64_t Size) {
  std::vector<double> Offsets;
  for (int Round = 0; Round < 9; ++Round) {
    std::vector<int64_t> Times(static_cast<size_t>(Size));
    Ranks.barrier();
    Times[static_cast<size_t>(Ranks.rank())] =
        std::chrono::duration_cast<std::chrono::microseconds>(
            std::chrono::system_clock::now().time_since_epoch())
            .count();
    Ranks.sum(Times.data(), Size);
    Offsets.push_back(
        1e-6 * static_cast<double>(Times[static_cast<size_t>(Ranks.rank())] -
                                   Times[0]));
  }
  std::nth_element(Offsets.begin(), Offsets.begin() + 4, Offsets.end());
  return Offsets[4];
}

/// One bucket of so many elements, cut equally, all-reduced in f32: by the way
/// that training will take.
static void addUp(const PoplarProgram &Program, Group &Ranks) {
  std::vector<int64_t> Bounds =
      comm::getEqualBounds(Elements, static_cast<int>(Program.world_size));
  Device D(Program, Ranks.rank(), 1);
  auto *Values = reinterpret_cast<float *>(D.allocate(Elements * 4));
  std::vector<float> OnHost(Elements, static_cast<float>(Ranks.rank() + 1));
  D.copyIn(Values, OnHost.data(), Elements * 4);
  comm::CommStream::MemoryGuard Guard(Ranks.stream());
  Ranks.reach(D);
  comm::Collective C;
  C.TheKind = comm::Collective::AllReduce;
  C.Send = C.Receive = Values;
  C.Bounds = Bounds.data();
  Ranks.setPhase("the doctor's all-reduce", Seconds);
  Ranks.start(0, C);
  Ranks.wait(0);
  D.copyOut(OnHost.data(), Values, Elements * 4);
  auto Size = static_cast<float>(Program.world_size);
  for (float Value : OnHost)
    if (Value != Size * (Size + 1) / 2)
      fail("an all-reduce of ", Elements, " elements is wrong on rank ",
           Ranks.rank(), ": ", Value, " and not ", Size * (Size + 1) / 2);
}

/// What is known of all ranks; the rank alone, if there is no group.
static std::vector<Facts> examine(const PoplarProgram &Program, Group *Ranks,
                                  bool Thoroughly) {
  int Rank = Ranks ? Ranks->rank() : 0;
  Facts Mine = collectFacts(Program, Rank);
  if (!Ranks)
    return {Mine};
  std::vector<Facts> All = gatherFacts(*Ranks, Mine, Program.world_size);
  if (!Thoroughly)
    return All;
  if (Mine.count("error") == 0)
    Mine["no_peer"] = findUnreachable(All, Rank);
  Mine["clock"] = std::to_string(measureClock(*Ranks, Program.world_size));
  return gatherFacts(*Ranks, Mine, Program.world_size);
}

/// Every rank knows; the first one says it for all, and ends the job.
[[noreturn]] static void refuse(Group *Ranks, const std::string &Message) {
  if (Ranks && Ranks->rank() != 0)
    Ranks->barrier();
  fail(Message);
}

void poplar::runtime::runDoctor(const PoplarProgram &Program,
                                const Options &O) {
  runJob(Program, O, [&](Group *Ranks) {
    using Clock = std::chrono::steady_clock;
    bool Leads = !Ranks || Ranks->rank() == 0;
    std::vector<Facts> All = examine(Program, Ranks, /*Thoroughly=*/true);
    std::vector<Finding> Found = diagnose(All);
    if (Leads) {
      std::printf("%s", formatTable(All).c_str());
      for (const Finding &F : Found)
        std::printf("%s\n", format(F, All).c_str());
      std::fflush(stdout);
    }
    auto Fatal = std::count_if(Found.begin(), Found.end(),
                               [](const Finding &F) { return F.Fatal; });
    if (Fatal)
      refuse(Ranks, "the job cannot run: " + std::to_string(Fatal) +
                        (Fatal == 1 ? " check" : " checks") + " failed; " +
                        format(Found[0], All));
    if (Ranks) {
      Clock::time_point Begin = Clock::now();
      addUp(Program, *Ranks);
      std::chrono::duration<double> Took = Clock::now() - Begin;
      if (Leads)
        std::printf("%lld ranks added up %lld values in %.2f s, start of the "
                    "communicators included\n",
                    static_cast<long long>(Program.world_size),
                    static_cast<long long>(Elements), Took.count());
    }
    if (Leads)
      std::printf("the job can run\n");
  });
}

void poplar::runtime::checkRanks(const PoplarProgram &Program, Group *Ranks) {
  if (!Ranks)
    return;
  std::vector<Facts> All = examine(Program, Ranks, /*Thoroughly=*/false);
  for (const Finding &F : diagnose(All))
    if (F.Fatal)
      refuse(Ranks, format(F, All) + "; poplar doctor prints details");
}

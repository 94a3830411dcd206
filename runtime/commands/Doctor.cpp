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
#include "job/RankCheck.h"
#include "program/Device.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

using namespace poplar::runtime;

/// Elements that are added up, and seconds that this may take.
static constexpr int64_t Elements = 1 << 20;
static constexpr double Seconds = 2;

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

void poplar::runtime::runDoctor(const PoplarProgram &Program,
                                const Options &O) {
  runJob(Program, O, [&](Group *Ranks) {
    using Clock = std::chrono::steady_clock;
    bool Leads = !Ranks || Ranks->rank() == 0;
    std::vector<Facts> All = examineRanks(Program, Ranks, /*Thoroughly=*/true);
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
      refuseJob(Ranks, "the job cannot run: " + std::to_string(Fatal) +
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

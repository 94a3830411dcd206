//===- RankCheck.cpp - What a job needs of its ranks, before it starts ----===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/RankCheck.h"
#include "job/Diagnosis.h"
#include "job/Group.h"
#include "support/Error.h"

#include <algorithm>
#include <chrono>

using namespace poplar::runtime;

/// Gathers the facts of all ranks on all ranks.
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

std::vector<Facts> poplar::runtime::examineRanks(const PoplarProgram &Program,
                                                 Group *Ranks,
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

void poplar::runtime::refuseJob(Group *Ranks, const std::string &Message) {
  if (Ranks && Ranks->rank() != 0)
    Ranks->barrier();
  fail(Message);
}

void poplar::runtime::checkRanks(const PoplarProgram &Program, Group *Ranks) {
  if (!Ranks)
    return;
  std::vector<Facts> All = examineRanks(Program, Ranks, /*Thoroughly=*/false);
  for (const Finding &F : diagnose(All))
    if (F.Fatal)
      refuseJob(Ranks, format(F, All) + "; poplar doctor prints details");
}

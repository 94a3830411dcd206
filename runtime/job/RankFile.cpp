//===- RankFile.cpp - Batches of ranks from a file ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/RankFile.h"
#include "support/Error.h"
#include "support/MappedFile.h"
#include "support/Random.h"

#include <sstream>

using namespace poplar::runtime;

/// Checks what a line says of rank `R`.
static void checkRank(const PoplarProgram &Program, int64_t R,
                      const std::string &Node, const std::string &Type,
                      const PoplarRank &Rank, const PoplarRank &First,
                      const std::string &Place) {
  const PoplarRank &Planned = Program.ranks[R];
  if (Node != Planned.node || Type != Planned.device_type)
    fail(Place, "rank ", R, " of the plan is a ", Planned.device_type, " on ",
         Planned.node, ", not a ", Type, " on ", Node);
  constexpr int64_t Limit = int64_t(1) << 31;
  if (Rank.threads < 1 || Rank.micro_batch < 0 || Rank.last < 0 ||
      Rank.steps < 1)
    fail(Place, "threads and steps are at least 1, and batches at least 0");
  if (Rank.micro_batch > Limit || Rank.last > Limit || Rank.steps > Limit ||
      (Rank.steps - 1) * Rank.micro_batch + Rank.last > Limit)
    fail(Place, "rank ", R, " takes more than 2^31 samples");
  // As the verifier of zero.plan has it.
  if (Program.stage >= 2 && Rank.steps != First.steps)
    fail(Place, "in stage ", Program.stage,
         " all ranks have the same number of steps");
}

RankFile::RankFile(const PoplarProgram &Program, const std::string &Path)
    : Changed(Program) {
  if (!Program.ranks)
    fail("--ranks: the program is for one device alone; use --batch");
  MappedFile File(Path);
  std::istringstream Lines{std::string(File.text())};
  std::string Line;
  uint64_t Hash = Program.plan_hash;
  int64_t Samples = 0;
  for (int Number = 1; std::getline(Lines, Line); ++Number) {
    if (Line.empty() || Line[0] == '#')
      continue;
    std::string Place = Path + ":" + std::to_string(Number) + ": ";
    int64_t R = static_cast<int64_t>(Ranks.size()), Named = -1;
    if (R == Program.world_size)
      fail(Place, "the plan has ", R, " ranks only");
    PoplarRank Rank = Program.ranks[R];
    std::string Node, Type, More;
    std::istringstream Words(Line);
    if (!(Words >> Named >> Node >> Type >> Rank.threads >> Rank.micro_batch >>
          Rank.steps >> Rank.last) ||
        Words >> More || Named != R)
      fail(Place, "expected `", R,
           " node device_type threads micro_batch steps last`");
    checkRank(Program, R, Node, Type, Rank, Ranks.empty() ? Rank : Ranks[0],
              Place);
    Samples += (Rank.steps - 1) * Rank.micro_batch + Rank.last;
    Hash = hashCounters(
        hashCounters(Hash, static_cast<uint64_t>(Rank.micro_batch)),
        hashCounters(static_cast<uint64_t>(Rank.steps),
                     static_cast<uint64_t>(Rank.last)));
    Ranks.push_back(Rank);
  }
  if (static_cast<int64_t>(Ranks.size()) != Program.world_size)
    fail(Path, ": has ", Ranks.size(), " ranks, and the plan ",
         Program.world_size);
  if (Samples == 0)
    fail(Path, ": no rank has samples");
  Changed.ranks = Ranks.data();
  Changed.plan_hash = Hash;
}

//===- RankCheck.h - What a job needs of its ranks --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_RANKCHECK_H
#define POPLAR_RUNTIME_RANKCHECK_H

#include "Poplar/Runtime/ABI.h"
#include "job/Facts.h"

#include <string>
#include <vector>

namespace poplar::runtime {

class Group;

// All three are collective. `Ranks` is null where the rank is alone.

/// The facts of all ranks, by rank. With `Thoroughly`, also which addresses
/// they cannot reach and how their clocks differ.
std::vector<Facts> examineRanks(const PoplarProgram &Program, Group *Ranks,
                                bool Thoroughly);

/// Throws an Error on the first rank, which prints it and ends the job. Others
/// wait for that.
[[noreturn]] void refuseJob(Group *Ranks, const std::string &Message);

/// Throws an Error for what a job would fail of.
void checkRanks(const PoplarProgram &Program, Group *Ranks);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_RANKCHECK_H

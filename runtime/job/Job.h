//===- Job.h - Work that the ranks of a plan do together --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_JOB_H
#define POPLAR_RUNTIME_JOB_H

#include "Poplar/Runtime/ABI.h"
#include "job/Options.h"

#include <functional>

namespace poplar::runtime {

class Group;

/// Seconds that what cannot be predicted may well take.
constexpr double LongPhase = 60;

/// Whether this process can do without others, as it has the whole model. Where
/// others were started, they work together.
bool canRunAlone(const PoplarProgram &Program);

/// Joins the ranks of the plan and runs `Work` on each, in the phase
/// "starting". Memory of `Work` that collectives touch needs a MemoryGuard
/// (comm/CommStream.h). A failure of one rank ends all. With one rank there is
/// no group, and `Work` is given null.
void runJob(const PoplarProgram &Program, const Options &O,
            const std::function<void(Group *)> &Work);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_JOB_H

//===- Job.cpp - Work that the ranks of a plan do together ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/Job.h"
#include "comm/Backend.h"
#include "comm/Launcher.h"
#include "job/Claims.h"
#include "job/Group.h"
#include "program/State.h"
#include "support/Error.h"

#include <optional>

using namespace poplar::runtime;

/// Events of a rank that --trace keeps.
static constexpr size_t TraceCapacity = 1 << 18;

bool poplar::runtime::canRunAlone(const PoplarProgram &Program) {
  return Program.world_size == 1 ||
         (hasWholeModel(Program) && comm::getNumStarted() == 1);
}

void poplar::runtime::runJob(const PoplarProgram &Program, const Options &O,
                             const std::function<void(Group *)> &Work) {
  if (Program.world_size == 1) {
    if (int Started = comm::getNumStarted(); Started > 1)
      fail("the plan has 1 rank, but ", Started,
           " were started, and each would write the same files; build a plan "
           "of ",
           Started, " ranks");
    return Work(nullptr);
  }
  comm::CommOptions Comm;
  Comm.Backend = O.Comm;
  if (!O.LinkDelay.empty())
    Comm.Link = comm::parseLinkModel(O.LinkDelay);
  std::optional<comm::StartLimit> Limit(std::in_place);
  auto Connect = [&] {
    auto Ranks = comm::makeCommunicator(Comm);
    Limit->setConnected();
    return Ranks;
  };
  Group Ranks(
      Program, Connect, claimOptions(Program, O), [&] { Limit.reset(); },
      O.Trace.empty() ? 0 : TraceCapacity);
  try {
    // Large models take their time to be allocated, prepared and loaded.
    Ranks.setPhase("starting", LongPhase);
    Work(&Ranks);
    if (!O.Trace.empty())
      Ranks.writeTrace(O.Trace);
    Ranks.close();
  } catch (const Disagreement &) {
    Ranks.close();
    throw;
  } catch (const std::exception &E) {
    Ranks.fail(E.what());
  }
}

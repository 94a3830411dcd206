//===- RunSetup.cpp - What a run is, before its first step ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/RunSetup.h"
#include "checkpoint/Checkpoint.h"
#include "program/Collectives.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/RunDirectory.h"
#include "training/Resumption.h"
#include "training/Shares.h"

#include <algorithm>
#include <filesystem>

using namespace poplar::runtime;

int64_t poplar::runtime::getMicroBatch(const PoplarProgram &Program, int Rank,
                                       const ModelInfo &Model, const Options &O,
                                       int64_t GlobalBatch,
                                       const std::string &Latest) {
  if (Program.ranks)
    return Program.ranks[Rank].micro_batch;
  if (O.MicroBatch)
    return std::min(O.MicroBatch, GlobalBatch);
  if (!Latest.empty())
    return std::min(readState(Latest).MicroBatch, GlobalBatch);
  return chooseMicroBatch(Program, Model, GlobalBatch);
}

std::string poplar::runtime::getLatest(const Options &O, Collectives *Group) {
  std::string Latest = O.Out.empty() ? "" : findLatestCheckpoint(O.Out);
  if (Group)
    Latest = Group->broadcast(Latest);
  if (!Latest.empty() && !O.Resume)
    fail("'", O.Out,
         "' holds a run already; continue it with --resume or choose another "
         "--out");
  // Whoever trains there may remove the checkpoint while it is read here.
  if (!Latest.empty() && (!Group || Group->rank() == 0))
    DirectoryLock::checkFree(O.Out);
  return Latest;
}

Beginning poplar::runtime::getBeginning(const ModelInfo &Model,
                                        const Options &O, Collectives *Group,
                                        const std::string &Latest) {
  if (Latest.empty())
    return {getRunKind(Model, O), O.ValSplit};
  std::string Kind, Split;
  if (!Group || Group->rank() == 0) {
    TrainingState State = readState(Latest);
    Kind = State.Kind;
    Split = State.Options["val-split"];
  }
  if (Group) {
    Kind = Group->broadcast(Kind);
    Split = Group->broadcast(Split);
  }
  // Runs of earlier versions had the defaults of pre-training, and held the end
  // of their data out.
  Beginning Result = {RunKind::PreTraining, "end"};
  if (!Kind.empty() && !parseRunKind(Kind, Result.Kind))
    fail("'", Latest, "/state.json' is damaged: no run has the kind '", Kind,
         "'");
  for (const char *Known : {"auto", "random"})
    if (Split == "'" + std::string(Known) + "'")
      Result.ValSplit = Known;
  return Result;
}

Sources poplar::runtime::openData(const Options &O, const ModelInfo &Model,
                                  bool Leads, Collectives *Group,
                                  const std::string &Latest) {
  Sources Data(O, Model, Leads);
  if (Group)
    agreeOnFiles(*Group, O, Data, Latest);
  return Data;
}

int64_t poplar::runtime::getGlobalBatch(const PoplarProgram &Program,
                                        const Options &O) {
  if (!Program.ranks)
    return O.GlobalBatch ? O.GlobalBatch : 8;
  int64_t Samples = countPlannedSamples(Program);
  if ((O.GlobalBatch && O.GlobalBatch != Samples) || O.MicroBatch)
    fail("the plan gives every rank its batch, ", Samples,
         " samples in all; for another --global-batch or --batch make another "
         "plan");
  return Samples;
}

int64_t poplar::runtime::getValSamples(const Options &O, const Sources &Data,
                                       int64_t GlobalBatch, int64_t MicroBatch,
                                       bool Planned) {
  if (!Data.Validation || O.EvalEvery == 0)
    return 0;
  if (O.EvalBatches == 0)
    return Data.Validation->size();
  return std::min(O.EvalBatches * (Planned ? GlobalBatch : MicroBatch),
                  Data.Validation->size());
}

/// The target of a link in directory `Run`: a relative one, so that both can be
/// moved together, unless they have nothing in common but the root.
static std::string getLinkTarget(const std::filesystem::path &Target,
                                 const std::string &Run) {
  std::error_code Code;
  std::filesystem::path From = std::filesystem::canonical(Run, Code);
  std::filesystem::path Way = Target.lexically_relative(From);
  auto First = [](const std::filesystem::path &P) {
    return P.has_root_directory() ? *++P.begin() : std::filesystem::path();
  };
  if (Code || Way.empty() || First(From) != First(Target))
    return Target.string();
  return Way.string();
}

void poplar::runtime::rememberJob(const PoplarProgram &Program,
                                  const std::string &Run) {
  std::error_code Code;
  std::filesystem::path Job = getJobDirectory(),
                        Target = std::filesystem::read_symlink("/proc/self/exe",
                                                               Code);
  if (Code)
    return;
  if (!hasWholeModel(Program))
    Target = Job / "launch.sh";
  replaceSymlink(getLinkTarget(Target, Run), Run + "/executable");
  std::string Plan = (Job / "plan.mlir").string();
  if (std::filesystem::exists(Plan, Code))
    writeFileAtomically(Run + "/plan.mlir", MappedFile(Plan).text());
}

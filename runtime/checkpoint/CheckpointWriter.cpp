//===- CheckpointWriter.cpp - Saving the state of a run -------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Adapter.h"
#include "checkpoint/Checkpoint.h"
#include "checkpoint/ChoiceBiases.h"
#include "checkpoint/Safetensors.h"
#include "checkpoint/StackedExperts.h"
#include "checkpoint/StateReader.h"
#include "program/Tensors.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/RunDirectory.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

/// Writes a file on the first rank, with the others' help.
static void writeTensors(const Executor &Exec, const std::string &Path,
                         const std::vector<TensorSource> &Tensors) {
  if (Exec.state().rank() == 0)
    writeSafetensors(Path, Tensors);
  else
    readTensors(Tensors, [](const TensorSource &, const float *, int64_t) {});
}

static void writeText(const std::string &Path, const std::string &Text) {
  OutputFile File(Path);
  File.write(Text);
  File.close();
}

/// Copies the tokenizer's files, as `poplar build` found them, so that the
/// checkpoint has its tokenizer beside the weights.
static void copyTokenizer(const std::string &Directory) {
  std::error_code None;
  std::string From = getJobDirectory() + "/tokenizer";
  for (const fs::directory_entry &Entry :
       fs::recursive_directory_iterator(From, None)) {
    std::string To =
        Directory + "/" + fs::relative(Entry.path(), From).string();
    if (Entry.is_directory())
      createDirectories(To);
    else
      writeText(To, std::string(MappedFile(Entry.path().string()).text()));
  }
}

/// Whether transformers reads the experts of the model in one tensor only.
static bool hasStackedExperts(const Executor &Exec) {
  return Exec.model().ModelType == "mistral4";
}

static void writeContents(const Executor &Exec, const TrainingState &State,
                          const std::string &Directory) {
  bool Leads = Exec.state().rank() == 0;
  if (Leads)
    createDirectories(Directory);
  std::vector<TensorSource> Weights, Moments;
  StateReader Reader(Exec);
  Reader.add(&Shard::Master, "", Weights);
  Reader.addMoment(&Shard::Moment1, &Shard::Blocks1, ".m", Moments);
  Reader.addMoment(&Shard::Moment2, &Shard::Blocks2, ".v", Moments);
  putAlignedFirst(Moments);
  const AdapterInfo &Adapter = Exec.model().Adapter;
  if (Adapter.Rank)
    for (TensorSource &Source : Weights)
      Source.Name = getAdapterName(Source.Name, Adapter.IsMultimodal);
  const char *Name = Adapter.Rank                ? AdapterWeightsName
                     : hasFrozen(Exec.program()) ? TrainedWeightsName
                                                 : "model.safetensors";
  if (!Adapter.Rank && !hasFrozen(Exec.program()) && hasStackedExperts(Exec))
    stackExperts(Weights, Leads);
  joinBiases(Weights, Leads);
  writeTensors(Exec, Directory + "/" + Name, Weights);
  writeTensors(Exec, Directory + "/optimizer.safetensors", Moments);
  if (!Leads)
    return;
  if (Adapter.Rank)
    writeText(Directory + "/" + AdapterConfigName,
              formatAdapterConfig(Adapter, State.Base));
  writeText(Directory + "/config.json", Exec.model().config);
  if (*Exec.model().tokenizer)
    copyTokenizer(Directory);
  TrainingState Saved = State;
  Saved.StateBits = Exec.state().getStateBits();
  writeText(Directory + "/state.json", formatState(Saved));
  syncDirectory(Directory);
}

/// Removes what a process that was killed while saving or removing left behind.
static void removeUnfinished(const std::string &Run) {
  std::vector<fs::path> Stale;
  std::error_code Code;
  for (const fs::directory_entry &Entry : fs::directory_iterator(Run, Code))
    if (Entry.path().filename().string().rfind(
            std::string(".") + CheckpointPrefix, 0) == 0)
      Stale.push_back(Entry.path());
  for (const fs::path &Path : Stale)
    fs::remove_all(Path, Code);
}

/// Renames the checkpoint `Name` before it is removed file by file: a process
/// killed in between leaves it whole or not at all.
static void removeCheckpoint(const std::string &Run, const std::string &Name) {
  std::string Removed = Run + "/." + Name + ".removed";
  std::error_code Code;
  fs::rename(Run + "/" + Name, Removed, Code);
  if (!Code)
    fs::remove_all(Removed, Code);
}

void poplar::runtime::saveCheckpoint(const Executor &Exec,
                                     const TrainingState &State,
                                     const std::string &Run, int64_t Keep,
                                     bool IsBest) {
  std::string Name = CheckpointPrefix + std::to_string(State.Step);
  std::string Final = Run + "/" + Name, Temporary = Run + "/." + Name + ".tmp";
  if (Exec.state().rank() != 0) // helps the first rank, which writes
    return writeContents(Exec, State, Temporary);
  removeUnfinished(Run);
  std::error_code Code;
  try {
    writeContents(Exec, State, Temporary);
  } catch (const Error &E) {
    fs::remove_all(Temporary, Code);
    std::string Previous = findLatestCheckpoint(Run);
    fail("checkpoint of step ", State.Step, " not saved: ", E.what(),
         Previous.empty() ? "" : "; the last good one is '" + Previous + "'");
  }
  removeCheckpoint(Run, Name); // of the same step, saved by an earlier run
  renamePath(Temporary, Final);
  replaceSymlink(Name, Run + "/latest");
  std::string Best = Run + "/best";
  if (IsBest)
    replaceSymlink(Name, Best);
  syncDirectory(Run);
  std::vector<int64_t> Steps = listCheckpoints(Run);
  // Checkpoints of later steps are from before the run was resumed at an
  // earlier step.
  Steps.erase(std::upper_bound(Steps.begin(), Steps.end(), State.Step),
              Steps.end());
  std::string Kept = fs::read_symlink(Best, Code).string();
  for (size_t I = 0; Keep > 0 && I + static_cast<size_t>(Keep) < Steps.size();
       ++I)
    if (std::string Old = CheckpointPrefix + std::to_string(Steps[I]);
        Old != Kept)
      removeCheckpoint(Run, Old);
}

void poplar::runtime::writeGradients(const Executor &Exec,
                                     const std::string &Path) {
  std::vector<TensorSource> Gradients;
  StateReader Reader(Exec);
  Reader.add(&Shard::Gradient, "", Gradients);
  writeTensors(Exec, Path, Gradients);
}

//===- Checkpoint.h - Saving and loading the state of a run -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHECKPOINT_H
#define POPLAR_RUNTIME_CHECKPOINT_H

#include "program/Executor.h"

#include <limits>
#include <map>

namespace poplar::runtime {

/// The content of state.json: with the tensors, everything a run depends on.
struct TrainingState {
  /// What was given, by name.
  using Record = std::map<std::string, std::string>;

  int64_t Step = 0;
  /// Samples drawn so far, the position in the shuffled data.
  int64_t Samples = 0;
  int64_t Seed = 0;
  /// Sums depend in their last bits on how a batch was cut.
  int64_t MicroBatch = 0;
  /// Threads of rank 0; 0 where that is not known. oneDNN may divide sums among
  /// them.
  int64_t Threads = 0;
  /// The largest loss scale of the ranks that keep activations in f16; 1
  /// without any.
  double LossScale = 1;
  /// How the run was begun (training/Course.h), the options that decide its
  /// course, and what its data hold; empty of runs of earlier versions.
  std::string Kind;
  Record Options, Data;
  double BestLoss = std::numeric_limits<double>::infinity();
  /// Bits of an element of the moments of large parameters, 8, 4, or 0 for f32;
  /// but for those that were in f32 because ranks that shared units cut their
  /// blocks.
  int64_t StateBits = 0;
  /// The source of frozen parameters, as an absolute path; empty if they are
  /// random numbers of the seed.
  std::string Base;
};

inline constexpr const char *TrainedWeightsName = "trained.safetensors";

/// Writes RUN/checkpoint-<step>/ (model.safetensors, config.json,
/// optimizer.safetensors, state.json), complete or not at all, points
/// RUN/latest at it, and RUN/best if it `IsBest`, and removes all but the last
/// `Keep` (0: none is removed) and the best.
/// Frozen parameters are not written. Of a program with adapters, the directory
/// is one of PEFT: see Adapter.h. Of another one with frozen parameters, the
/// trained ones are in TrainedWeightsName, so that nobody takes them for a
/// model.
void saveCheckpoint(const Executor &Exec, const TrainingState &State,
                    const std::string &Run, int64_t Keep, bool IsBest = false);

/// Fills the masters and working copies from a checkpoint of this project or
/// of Hugging Face, a directory or a safetensors file; a run stands for its
/// newest checkpoint. An Error names the key of its config.json that differs
/// from the program's, or the first tensor that is missing, superfluous or of
/// another shape. Adapters are left as they are. Returns how many tensors it
/// has read.
int64_t loadWeights(Executor &Exec, const std::string &RunOrCheckpoint);

/// Fills the adapters from a run, a checkpoint or another directory of PEFT.
/// Returns how many tensors it has read.
int64_t loadAdapter(Executor &Exec, const std::string &RunOrDirectory);

/// The parameters that a run starts with: those at `Base`, random ones of the
/// seed if it is empty. Adapters are random numbers. Returns how many tensors
/// it has read.
int64_t initializeModel(Executor &Exec, const std::string &Base, int64_t Seed);

/// Whether a program has frozen parameters, which its checkpoints lack.
bool hasFrozen(const PoplarProgram &Program);

/// Loads the model as it is after training. Frozen parameters come from `Base`,
/// or from their recorded source if that is empty.
void loadTrained(Executor &Exec, const std::string &RunOrCheckpoint,
                 const std::string &Base);

/// The path of the frozen parameters of a checkpoint: `Base`, if it is given,
/// or their source (TrainingState); empty if it is not recorded. An Error if
/// nothing is there.
std::string findBase(const std::string &Directory, const std::string &Base);

/// The text of state.json. It ends with a digest of what stands before it.
std::string formatState(const TrainingState &State);

/// The state.json of a checkpoint.
TrainingState readState(const std::string &Directory);

/// loadTrained, and the optimizer's moments.
void loadTensors(Executor &Exec, const std::string &Directory,
                 const std::string &Base);

/// Writes all gradients to a safetensors file.
void writeGradients(const Executor &Exec, const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHECKPOINT_H

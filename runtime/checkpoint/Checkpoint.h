//===- Checkpoint.h - Saving and loading the state of a run -----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_CHECKPOINT_H
#define POPLAR_RUNTIME_CHECKPOINT_H

#include "training/Executor.h"

#include <limits>

namespace poplar::runtime {

/// What state.json holds: with the tensors, all that a run depends on.
struct TrainingState {
  int64_t Step = 0;
  /// Samples drawn so far, the position in the shuffled data.
  int64_t Samples = 0;
  int64_t Seed = 0;
  /// Sums depend in their last bits on how a batch was cut.
  int64_t MicroBatch = 0;
  /// Of rank 0; 0 where it is not known. oneDNN may divide sums among them.
  int64_t Threads = 0;
  /// Of the ranks that keep activations in f16, the largest; 1 without any.
  double LossScale = 1;
  /// Of the options that decide the course of training.
  std::string OptionsHash;
  double BestLoss = std::numeric_limits<double>::infinity();
};

/// Writes RUN/checkpoint-<step>/ (model.safetensors, config.json,
/// optimizer.safetensors, state.json), complete or not at all, points
/// RUN/latest at it, and removes all but the last `Keep` (0: none is removed).
void saveCheckpoint(const Executor &Exec, const TrainingState &State,
                    const std::string &Run, int64_t Keep);

/// The newest checkpoint directory of a run; empty if it has none.
std::string findLatestCheckpoint(const std::string &Run);

/// Fills the masters and working copies from a checkpoint of this project or
/// of Hugging Face, a directory or a safetensors file; a run stands for its
/// newest checkpoint. An Error names the key of its config.json that differs
/// from the program's, or the first tensor that is missing, superfluous or of
/// another shape.
void loadWeights(Executor &Exec, const std::string &RunOrCheckpoint);

/// The state.json of a checkpoint.
TrainingState readState(const std::string &Directory);

/// loadWeights, and the same for the optimizer's moments.
void loadTensors(Executor &Exec, const std::string &Directory);

/// Writes all gradients to a safetensors file.
void writeGradients(const Executor &Exec, const std::string &Path);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_CHECKPOINT_H

//===- Batch.h - Samples of a step, cut into micro-batches ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_BATCH_H
#define POPLAR_RUNTIME_BATCH_H

#include "Data.h"
#include "Executor.h"

namespace poplar::runtime {

/// Feeds the program with a batch of any size in micro-batches of at most
/// `MicroBatch` samples, the last one smaller. Losses and gradients are
/// normalised by the targets of the whole batch, so that the cut makes no
/// difference but rounding. Allocates only when constructed.
class BatchRunner {
public:
  BatchRunner(Executor &Exec, int64_t MicroBatch, int64_t MaxSamples,
              uint64_t Seed);

  /// Reads samples [First, First + Count) of a source and, for the masked
  /// objective, masks them. `Step` names the draw of random numbers. Returns
  /// the number of targets.
  int64_t load(SampleSource &Source, int64_t First, int64_t Count,
               int64_t Step);
  /// Runs forward and backward on what was loaded, adding to the gradients;
  /// returns the mean loss of the counted targets, of which there must be one.
  double train() { return run(/*Backward=*/true); }
  /// The same without gradients.
  double evaluate() { return run(/*Backward=*/false); }
  /// Writes the logits of what was loaded, [samples, SeqLen, VocabSize], to
  /// `Out`, with dropout off.
  void infer(float *Out);

private:
  double run(bool Backward);

  Executor &Exec;
  int64_t MicroBatch;
  uint64_t Seed;
  int64_t Count = 0, Targets = 0, Step = 0;
  std::vector<int32_t> Ids, TargetIds;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BATCH_H

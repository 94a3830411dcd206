//===- Batch.h - Samples of a step, cut into micro-batches ------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_BATCH_H
#define POPLAR_RUNTIME_BATCH_H

#include "data/Data.h"
#include "program/Executor.h"

#include <algorithm>

namespace poplar::runtime {

/// A rank's part of a batch: `Samples` from number `Offset` of the batch on, in
/// `Steps` micro-steps of `MicroBatch` samples as long as there are any left;
/// the last one takes the rest. Ranks that meet in every micro-step have the
/// same number of them.
struct Share {
  int64_t Offset = 0, Samples = 0, MicroBatch = 0, Steps = 0;

  int64_t start(int64_t Step) const {
    return std::min(Step * MicroBatch, Samples);
  }
  int64_t size(int64_t Step) const {
    return (Step + 1 < Steps ? start(Step + 1) : Samples) - start(Step);
  }
};

/// What a model says of a pair of answers (data/PairSource.h): for each, the
/// log-probability of its tokens and their number; and of the tokens that count
/// as a language model's do, in front of the chosen answer and of it, the sum
/// of losses and the number. Nothing where another rank has the loss.
struct PairScore {
  double Chosen = 0, Rejected = 0, Loss = 0;
  int64_t ChosenTokens = 0, RejectedTokens = 0, LossTokens = 0;
};

/// Gradients of a loss by the log-probabilities of the tokens of a pair's
/// answers, negated, and by the losses of the tokens that have one.
struct PairGradient {
  double Chosen = 0, Rejected = 0, Loss = 0;
};

/// Feeds the program with a share of a batch. Losses and gradients are
/// normalised by the targets of the whole batch, so that the cut makes no
/// difference but rounding. Allocates only when constructed.
class BatchRunner : private MicroBatches {
public:
  /// For shares of up to `MaxSamples` samples, which are `Pairs` or not.
  BatchRunner(Executor &Exec, int64_t MaxSamples, uint64_t Seed,
              bool Pairs = false);

  /// Reads a share of the batch that starts at sample `First` of a source and,
  /// for the masked objective, masks it. `Step` names the draw of random
  /// numbers. Returns the number of targets.
  int64_t load(SampleSource &Source, int64_t First, const Share &Part,
               int64_t Step);
  /// The same, of all ranks: returns the targets of the whole batch.
  /// Collective, where there are several ranks.
  int64_t loadBatch(SampleSource &Source, int64_t First, const Share &Part,
                    int64_t Step);
  /// Runs forward and backward on what was loaded, adding to the gradients of
  /// the loss times `LossScale`; `Targets` are those of the whole batch, of
  /// which there must be one. Returns the sum of the share's losses.
  double train(int64_t Targets, double LossScale = 1);
  /// The sum of losses without gradients.
  double evaluate();
  /// Scores the pairs that were loaded, without gradients.
  const std::vector<PairScore> &scorePairs();
  /// Numbers of the pairs that were loaded, made of their tokens and targets.
  const std::vector<uint64_t> &pairKeys() const { return PairKeys; }
  /// Runs forward and backward on what was loaded, adding to the gradients
  /// those of a loss with these gradients by each pair, times `LossScale`.
  void trainPairs(const std::vector<PairGradient> &Gradients, double LossScale);
  /// Whether this rank counts the pairs that it has loaded: no other one does.
  bool countsPairs() const;
  /// Writes the logits of what was loaded, [samples, SeqLen, LogitsColumns],
  /// to `Out`, with dropout off.
  void infer(float *Out);

private:
  double run(bool Backward, float LossGradient);
  /// The kind of pass over micro-batches.
  enum class Pass { Train, Evaluate, Infer };
  int64_t count() const override { return Part.Steps; }
  int64_t size(int64_t MicroStep) const override {
    return Part.size(MicroStep);
  }
  void fill(int64_t MicroStep, char *Slot, bool HasLoss) override;
  void take(int64_t MicroStep) override;
  void runAll(Pass P);
  void loadPair(int64_t Sample);
  void fillPairs(int64_t First, int64_t Count);
  void takePairs(int64_t First, int64_t Count);

  Executor &Exec;
  uint64_t Seed;
  Share Part;
  int64_t Step = 0;
  std::vector<int32_t> Ids, TargetIds;
  /// Positions of tokens in their documents, if documents share samples.
  std::vector<int32_t> Positions;
  /// Values of a micro-step: keys of its samples, gradients and losses of its
  /// tokens.
  std::vector<uint32_t> Keys;
  std::vector<float> LossGradients, Losses;
  /// By token of a pair's half, whether it counts in the answer; and what is
  /// known of each pair.
  const bool Pairs;
  std::vector<char> IsAnswer;
  std::vector<uint64_t> PairKeys;
  std::vector<PairScore> Scores;
  const std::vector<PairGradient> *Gradients = nullptr;
  double PairScale = 1;
  /// State of the run under way; where the logits go, and the sum of losses so
  /// far.
  Pass ThePass = Pass::Train;
  float *Logits = nullptr;
  double LossSum = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BATCH_H

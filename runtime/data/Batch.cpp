//===- Batch.cpp - Samples of a step, cut into micro-batches --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Batch.h"
#include "data/PairSource.h"
#include "program/Collectives.h"
#include "support/Random.h"

#include <algorithm>

using namespace poplar::runtime;

BatchRunner::BatchRunner(Executor &Exec, int64_t MaxSamples, uint64_t Seed,
                         bool Pairs)
    : Exec(Exec), Seed(Seed),
      Ids(static_cast<size_t>(MaxSamples * Exec.model().seq_len)),
      TargetIds(Ids.size()), Positions(Exec.model().packed ? Ids.size() : 0),
      Keys(static_cast<size_t>(2 * Exec.largestBatch())),
      LossGradients(
          static_cast<size_t>(Exec.largestBatch() * Exec.model().seq_len)),
      Losses(LossGradients.size()), Pairs(Pairs),
      IsAnswer(Pairs ? Ids.size() : 0),
      PairKeys(Pairs ? static_cast<size_t>(MaxSamples) : 0),
      Scores(PairKeys.size()) {}

int64_t BatchRunner::load(SampleSource &Source, int64_t First,
                          const Share &NewPart, int64_t NewStep) {
  const ModelInfo &Model = Exec.model();
  Part = NewPart;
  Step = NewStep;
  // Masks follow from a sample's place in the batch of a step. An evaluation
  // may cut the data into any batches, so there it is the place in the data.
  int64_t FirstPlace = Part.Offset + (Step < 0 ? First : 0);
  for (int64_t B = 0; B < Part.Samples; ++B) {
    int32_t *SampleIds = Ids.data() + B * Model.seq_len;
    int32_t *SampleTargets = TargetIds.data() + B * Model.seq_len;
    Source.read(First + Part.Offset + B, SampleIds, SampleTargets);
    if (Model.packed)
      Source.readPositions(First + Part.Offset + B, Model.seq_len,
                           Positions.data() + B * Model.seq_len);
    // Raw samples come with the targets they want.
    if (Model.masked && Source.needsMasking())
      maskTokens(hashCounters(Seed, static_cast<uint64_t>(Stream::Masking),
                              Step, FirstPlace + B),
                 Model, SampleIds, SampleTargets);
    if (Pairs)
      loadPair(B);
  }
  return countTargets(TargetIds.data(), Part.Samples * Model.seq_len);
}

/// Separates the marks of targets from the targets.
void BatchRunner::loadPair(int64_t Sample) {
  int64_t SeqLen = Exec.model().seq_len, First = Sample * SeqLen;
  uint64_t Key = 0;
  for (int64_t I = First; I < First + SeqLen; ++I) {
    auto Place = static_cast<size_t>(I);
    int32_t &Target = TargetIds[Place];
    Key = hashCounters(Key, static_cast<uint64_t>(Ids[Place]),
                       static_cast<uint64_t>(Target));
    IsAnswer[Place] = Target >= 0;
    if (Target < -1)
      Target = markPrompt(Target);
  }
  PairKeys[static_cast<size_t>(Sample)] = Key;
}

int64_t BatchRunner::loadBatch(SampleSource &Source, int64_t First,
                               const Share &NewPart, int64_t NewStep) {
  int64_t Targets = load(Source, First, NewPart, NewStep);
  // The other groups of a pipeline see the same samples, and so do ranks that
  // share units.
  if ((Exec.pipeline() && Exec.program().pipeline->group != 0) ||
      Exec.isFollower())
    Targets = 0;
  if (Exec.collectives)
    Exec.collectives->sum(&Targets, 1);
  return Targets;
}

double BatchRunner::train(int64_t Targets, double LossScale) {
  return run(/*Backward=*/true,
             static_cast<float>(LossScale / static_cast<double>(Targets)));
}

const std::vector<PairScore> &BatchRunner::scorePairs() {
  std::fill(Scores.begin(), Scores.end(), PairScore());
  run(/*Backward=*/false, 0);
  return Scores;
}

void BatchRunner::trainPairs(const std::vector<PairGradient> &OfPairs,
                             double LossScale) {
  Gradients = &OfPairs;
  PairScale = LossScale;
  runAll(Pass::Train);
  Gradients = nullptr;
}

bool BatchRunner::countsPairs() const {
  const PoplarPipeline *Stage = Exec.program().pipeline;
  return (!Stage || Stage->group + 1 == Stage->num_groups) &&
         !Exec.isFollower();
}

double BatchRunner::evaluate() { return run(/*Backward=*/false, 0); }

void BatchRunner::infer(float *Out) {
  Logits = Out;
  runAll(Pass::Infer);
}

double BatchRunner::run(bool Backward, float LossGradient) {
  std::fill(LossGradients.begin(), LossGradients.end(), LossGradient);
  LossSum = 0;
  runAll(Backward ? Pass::Train : Pass::Evaluate);
  return LossSum;
}

void BatchRunner::runAll(Pass P) {
  ThePass = P;
  if (Pipeline *Turns = Exec.pipeline()) {
    switch (P) {
    case Pass::Train:
      return Turns->train(*this);
    case Pass::Evaluate:
      return Turns->evaluate(*this);
    case Pass::Infer:
      return Turns->infer(*this);
    }
  }
  for (int64_t MicroStep = 0; MicroStep < Part.Steps; ++MicroStep) {
    int64_t B = Part.size(MicroStep);
    fill(MicroStep, Exec.sized<char>(0, B), /*HasLoss=*/true);
    switch (P) {
    case Pass::Train:
      Exec.train(B, MicroStep + 1 == Part.Steps);
      break;
    case Pass::Evaluate:
      Exec.evaluate(B);
      break;
    case Pass::Infer:
      Exec.infer(B);
      break;
    }
    if (Exec.collectives && P != Pass::Infer)
      Exec.collectives->progress();
    take(MicroStep);
  }
}

void BatchRunner::fill(int64_t MicroStep, char *Slot, bool HasLoss) {
  const PoplarProgram &Program = Exec.program();
  int64_t SeqLen = Exec.model().seq_len;
  int64_t B = Part.size(MicroStep), N = B * SeqLen;
  int64_t First = Part.start(MicroStep);
  Device &Dev = Exec.device();
  Dev.copyIn(Slot + B * Program.ids, Ids.data() + First * SeqLen, N * 4);
  if (Exec.model().packed)
    Dev.copyIn(Slot + B * Program.positions, Positions.data() + First * SeqLen,
               N * 4);
  if (ThePass == Pass::Infer)
    return;
  Dev.copyIn(Slot + B * Program.targets, TargetIds.data() + First * SeqLen,
             N * 4);
  if (ThePass == Pass::Evaluate)
    return;
  for (int64_t I = 0; I < B; ++I) {
    uint64_t Key = hashCounters(Seed, static_cast<uint64_t>(Stream::Dropout),
                                Step, Part.Offset + First + I);
    Keys[static_cast<size_t>(2 * I)] = static_cast<uint32_t>(Key);
    Keys[static_cast<size_t>(2 * I + 1)] = static_cast<uint32_t>(Key >> 32);
  }
  Dev.copyIn(Slot + B * Program.keys, Keys.data(), B * 8);
  if (HasLoss && Gradients)
    fillPairs(First, B);
  if (HasLoss)
    Dev.copyIn(Slot + B * Program.dloss, LossGradients.data(), N * 4);
}

void BatchRunner::take(int64_t MicroStep) {
  const PoplarProgram &Program = Exec.program();
  int64_t SeqLen = Exec.model().seq_len;
  int64_t B = Part.size(MicroStep), N = B * SeqLen;
  int64_t First = Part.start(MicroStep) * SeqLen;
  if (ThePass == Pass::Infer) {
    Exec.readLogits(Exec.program().logits, B, 0, N,
                    Logits + First * Exec.model().logits_columns);
    return;
  }
  // What a pair's gradient is follows from its losses, on all ranks that have
  // them.
  if (Exec.isFollower() && !Pairs)
    return;
  int64_t Loss = Program.evaluate_loss;
  if (ThePass == Pass::Train)
    Loss = MicroStep + 1 == Part.Steps ? Program.train_last_loss
                                       : Program.train_loss;
  Exec.device().copyOut(Losses.data(), Exec.sized<float>(Loss, B), N * 4);
  if (Pairs && ThePass == Pass::Evaluate)
    takePairs(Part.start(MicroStep), B);
  if (Exec.isFollower())
    return;
  for (int64_t I = 0; I < N; ++I)
    if (TargetIds[static_cast<size_t>(First + I)] >= 0)
      LossSum += Losses[static_cast<size_t>(I)];
}

/// The gradients of the losses of a micro-step's tokens.
void BatchRunner::fillPairs(int64_t First, int64_t Count) {
  int64_t SeqLen = Exec.model().seq_len;
  for (int64_t B = 0; B < Count; ++B) {
    const PairGradient &G = (*Gradients)[static_cast<size_t>(First + B)];
    for (int64_t T = 0; T < SeqLen; ++T) {
      auto Place = static_cast<size_t>((First + B) * SeqLen + T);
      bool IsChosen = T < SeqLen / 2;
      double Gradient = IsChosen ? G.Loss : 0;
      if (IsAnswer[Place])
        Gradient += IsChosen ? G.Chosen : G.Rejected;
      LossGradients[static_cast<size_t>(B * SeqLen + T)] =
          static_cast<float>(PairScale * Gradient);
    }
  }
}

/// The scores of a micro-step's pairs, from the losses of their tokens.
void BatchRunner::takePairs(int64_t First, int64_t Count) {
  int64_t SeqLen = Exec.model().seq_len;
  for (int64_t B = 0; B < Count; ++B) {
    PairScore &S = Scores[static_cast<size_t>(First + B)];
    for (int64_t T = 0; T < SeqLen; ++T) {
      auto Place = static_cast<size_t>((First + B) * SeqLen + T);
      if (TargetIds[Place] == -1)
        continue;
      double Loss = Losses[static_cast<size_t>(B * SeqLen + T)];
      bool IsChosen = T < SeqLen / 2;
      if (IsChosen) {
        S.Loss += Loss;
        ++S.LossTokens;
      }
      if (!IsAnswer[Place])
        continue;
      (IsChosen ? S.Chosen : S.Rejected) -= Loss;
      ++(IsChosen ? S.ChosenTokens : S.RejectedTokens);
    }
  }
}

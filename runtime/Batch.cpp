//===- Batch.cpp - Samples of a step, cut into micro-batches --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Batch.h"
#include "Collectives.h"
#include "Random.h"

#include <algorithm>

using namespace poplar::runtime;

BatchRunner::BatchRunner(Executor &Exec, int64_t MaxSamples, uint64_t Seed)
    : Exec(Exec), Seed(Seed),
      Ids(static_cast<size_t>(MaxSamples * Exec.model().SeqLen)),
      TargetIds(Ids.size()), Keys(static_cast<size_t>(2 * Exec.largestBatch())),
      LossGradients(
          static_cast<size_t>(Exec.largestBatch() * Exec.model().SeqLen)),
      Losses(LossGradients.size()) {}

int64_t BatchRunner::load(SampleSource &Source, int64_t First,
                          const Share &NewPart, int64_t NewStep) {
  const ModelInfo &Model = Exec.model();
  Part = NewPart;
  Step = NewStep;
  for (int64_t B = 0; B < Part.Samples; ++B) {
    int32_t *SampleIds = Ids.data() + B * Model.SeqLen;
    int32_t *SampleTargets = TargetIds.data() + B * Model.SeqLen;
    Source.read(First + Part.Offset + B, SampleIds, SampleTargets);
    // Raw samples come with the targets they want.
    if (Model.Masked && Source.needsMasking())
      maskTokens(hashCounters(Seed, static_cast<uint64_t>(Stream::Masking),
                              Step, Part.Offset + B),
                 Model, SampleIds, SampleTargets);
  }
  return countTargets(TargetIds.data(), Part.Samples * Model.SeqLen);
}

double BatchRunner::train(int64_t Targets, double LossScale) {
  return run(/*Backward=*/true,
             static_cast<float>(LossScale / static_cast<double>(Targets)));
}

double BatchRunner::evaluate() { return run(/*Backward=*/false, 0); }

void BatchRunner::infer(float *Out) {
  const ModelInfo &Model = Exec.model();
  for (int64_t MicroStep = 0; MicroStep < Part.Steps; ++MicroStep) {
    int64_t B = Part.size(MicroStep), N = B * Model.SeqLen;
    int64_t First = Part.start(MicroStep) * Model.SeqLen;
    Exec.device().copyIn(Exec.sized<int32_t>(Exec.program().ids, B),
                         Ids.data() + First, N * 4);
    Exec.infer(B);
    Exec.readLogits(B, 0, N, Out + First * Model.VocabSize);
  }
}

double BatchRunner::run(bool Backward, float LossGradient) {
  const PoplarProgram &Program = Exec.program();
  int64_t SeqLen = Exec.model().SeqLen;
  Device &Dev = Exec.device();
  std::fill(LossGradients.begin(), LossGradients.end(), LossGradient);
  double Sum = 0;
  for (int64_t MicroStep = 0; MicroStep < Part.Steps; ++MicroStep) {
    int64_t B = Part.size(MicroStep), N = B * SeqLen;
    int64_t First = Part.start(MicroStep);
    const int32_t *MicroTargets = TargetIds.data() + First * SeqLen;
    Dev.copyIn(Exec.sized<int32_t>(Program.ids, B), Ids.data() + First * SeqLen,
               N * 4);
    Dev.copyIn(Exec.sized<int32_t>(Program.targets, B), MicroTargets, N * 4);
    if (Backward) {
      for (int64_t I = 0; I < B; ++I) {
        uint64_t Key =
            hashCounters(Seed, static_cast<uint64_t>(Stream::Dropout), Step,
                         Part.Offset + First + I);
        Keys[static_cast<size_t>(2 * I)] = static_cast<uint32_t>(Key);
        Keys[static_cast<size_t>(2 * I + 1)] = static_cast<uint32_t>(Key >> 32);
      }
      Dev.copyIn(Exec.sized<uint32_t>(Program.keys, B), Keys.data(), B * 8);
      Dev.copyIn(Exec.sized<float>(Program.dloss, B), LossGradients.data(),
                 N * 4);
      Exec.train(B, MicroStep + 1 == Part.Steps);
    } else {
      Exec.evaluate(B);
    }
    if (Exec.collectives)
      Exec.collectives->progress();
    Dev.copyOut(Losses.data(),
                Exec.sized<float>(
                    Backward ? Program.train_loss : Program.evaluate_loss, B),
                N * 4);
    for (int64_t I = 0; I < N; ++I)
      if (MicroTargets[I] != -1)
        Sum += Losses[static_cast<size_t>(I)];
  }
  return Sum;
}

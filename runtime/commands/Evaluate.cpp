//===- Evaluate.cpp - The loss of a checkpoint on data --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "data/Batch.h"
#include "data/Sources.h"
#include "job/Group.h"
#include "job/Job.h"
#include "support/Error.h"
#include "training/Shares.h"
#include "training/Trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

using namespace poplar::runtime;

namespace {
/// Adds up samples and their targets so far.
class Tally {
public:
  Tally(bool Reports, int64_t Size) : Reports(Reports), Size(Size) {}

  /// Prints where the evaluation is every other second.
  void add(int64_t NewSamples, int64_t NewTargets, double Loss) {
    Samples += NewSamples;
    Targets += NewTargets;
    LossSum += Loss;
    Clock::time_point Now = Clock::now();
    if (!Reports || Samples == Size || Now - Last < std::chrono::seconds(2))
      return;
    Last = Now;
    std::printf("evaluated %lld of %lld samples, loss so far %.4f\n",
                static_cast<long long>(Samples), static_cast<long long>(Size),
                getLoss());
    std::fflush(stdout);
  }

  void print(const std::string &Checkpoint) const {
    if (Targets == 0)
      fail("none of the tokens is a target");
    if (!std::isfinite(LossSum))
      fail("the output of '", Checkpoint, "' is not finite: ", DivergedAdvice);
    if (Reports)
      std::printf(
          "loss %.6f, perplexity %.6g, of %lld tokens in %lld samples\n",
          getLoss(), std::exp(getLoss()), static_cast<long long>(Targets),
          static_cast<long long>(Samples));
  }

private:
  using Clock = std::chrono::steady_clock;
  double getLoss() const {
    return LossSum / static_cast<double>(std::max<int64_t>(Targets, 1));
  }

  bool Reports;
  int64_t Size, Samples = 0, Targets = 0;
  double LossSum = 0;
  Clock::time_point Last = Clock::now();
};
} // namespace

/// All of the data is read in order, as validation data are.
static Options readAll(Options O) {
  O.ValData = O.Data;
  return O;
}

/// Evaluates on one rank that has the whole model, or on all that meet.
static void evaluate(const PoplarProgram &Program, const Options &O,
                     Group *Ranks) {
  int Rank = Ranks ? Ranks->rank() : 0;
  ModelInfo Model(Program);
  Sources Data(readAll(O), Model, /*Reports=*/Rank == 0);
  SampleSource &Source = Data.Validation ? *Data.Validation : *Data.Train;
  int64_t Size = Source.size(),
          MicroBatch = O.MicroBatch ? O.MicroBatch
                                    : chooseMicroBatch(Program, Model, Size),
          Chunk =
              std::min(Ranks ? countPlannedSamples(Program) : MicroBatch, Size);
  auto GetPart = [&](int64_t Samples) {
    return Ranks ? getShare(Program, Rank, MicroBatch, Samples, false)
                 : Share{0, Samples, MicroBatch, 1};
  };
  Share Whole = GetPart(Chunk), Rest = GetPart(Size % Chunk);
  Executor Exec(Program, getBatchSizes({Whole, Rest}),
                getThreads(Program, O, Rank), Rank);
  Exec.collectives = Ranks;
  std::optional<comm::CommStream::MemoryGuard> Guard;
  if (Ranks) {
    Ranks->attach(Exec.state(), Exec.device());
    Guard.emplace(Ranks->stream());
    agreeOnFiles(*Ranks, O, Data, "");
    Ranks->agree({{"--checkpoint", describeCheckpoint(O.Checkpoint)}});
  }
  loadTrained(Exec, O.Checkpoint, O.Init);
  BatchRunner Batches(Exec, std::max(Whole.Samples, Rest.Samples),
                      static_cast<uint64_t>(O.Seed));
  Tally Sum(Rank == 0, Size);
  for (int64_t First = 0; First < Size; First += Chunk) {
    if (Ranks)
      Ranks->setPhase("evaluating", LongPhase);
    int64_t Targets = Batches.loadBatch(
        Source, First, Size - First < Chunk ? Rest : Whole, /*Step=*/-1);
    double Loss = Targets ? Batches.evaluate() : 0;
    if (Ranks)
      Ranks->sum(&Loss, 1);
    Sum.add(std::min(Chunk, Size - First), Targets, Loss);
  }
  Sum.print(O.Checkpoint);
}

void poplar::runtime::runEvaluation(const PoplarProgram &Program,
                                    const Options &O) {
  if (canRunAlone(Program))
    return evaluate(Program, O, nullptr);
  runJob(Program, O, [&](Group *Ranks) { evaluate(Program, O, Ranks); });
}

//===- Shares.cpp - What a rank computes of a batch -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Shares.h"
#include "program/Collectives.h"

#include <algorithm>
#include <numeric>
#include <unistd.h>

using namespace poplar::runtime;

static int64_t getSamples(const PoplarRank &Rank) {
  return (Rank.steps - 1) * Rank.micro_batch + Rank.last;
}

int64_t poplar::runtime::countPlannedSamples(const PoplarProgram &Program) {
  int64_t Samples = 0;
  for (int64_t R = 0; R < Program.world_size; ++R)
    if (Program.ranks[R].group == 0 && Program.ranks[R].position == 0)
      Samples += getSamples(Program.ranks[R]);
  return Samples;
}

int64_t poplar::runtime::chooseMicroBatch(const PoplarProgram &Program,
                                          const ModelInfo &Model,
                                          int64_t Samples) {
  double Free = 0.8 * static_cast<double>(sysconf(_SC_AVPHYS_PAGES)) *
                static_cast<double>(sysconf(_SC_PAGESIZE));
  int64_t Batch = std::min(Samples, std::max<int64_t>(1, 4096 / Model.seq_len));
  while (Batch > 1 && static_cast<double>(getPeakBytes(Program, Batch)) > Free)
    --Batch;
  return Batch;
}

/// The largest micro-batch that a rank has memory for.
static int64_t getLargestStep(const PoplarRank &Rank) {
  return Rank.steps > 1 ? std::max(Rank.micro_batch, Rank.last) : Rank.last;
}

Share poplar::runtime::getShare(const PoplarProgram &Program, int Rank,
                                int64_t MicroBatch, int64_t Samples,
                                bool IsIteration) {
  if (!Program.ranks)
    return {0, Samples, MicroBatch, (Samples + MicroBatch - 1) / MicroBatch};
  int64_t Total = 0, Before = 0;
  std::vector<int64_t> Starts;
  // Pipelines share the samples: each group has a rank of all of them.
  // So do ranks that share units: the first of them stands for all.
  if (Program.ranks[Rank].num_sharers > 1)
    Rank = static_cast<int>(Program.ranks[Rank].sharers[0]);
  auto IsPeer = [&](int64_t R) {
    return Program.ranks[R].group == Program.ranks[Rank].group &&
           Program.ranks[R].position == 0;
  };
  for (int64_t R = 0; R < Program.world_size; ++R) {
    Starts.push_back(Total);
    if (IsPeer(R))
      Total += getSamples(Program.ranks[R]);
  }
  Starts.push_back(Total);
  Share Result;
  for (int64_t R = 0; R < Program.world_size; ++R) {
    if (!IsPeer(R))
      continue;
    int64_t After = Samples * Starts[static_cast<size_t>(R) + 1] / Total;
    int64_t Micro = IsIteration ? Program.ranks[R].micro_batch
                                : getLargestStep(Program.ranks[R]);
    if (R == Rank)
      Result = {Before, After - Before, Micro, Result.Steps};
    if (!IsIteration && After > Before)
      Result.Steps =
          std::max(Result.Steps, (After - Before + Micro - 1) / Micro);
    Before = After;
  }
  if (IsIteration)
    Result.Steps = Program.ranks[Rank].steps;
  return Result;
}

std::vector<int64_t>
poplar::runtime::getBatchSizes(std::initializer_list<Share> Shares) {
  std::vector<int64_t> Sizes = {0};
  for (const Share &S : Shares) {
    // Whole micro-batches, then what is left, then nothing; or all in the last.
    int64_t Whole = S.MicroBatch ? S.Samples / S.MicroBatch : 0;
    for (int64_t Step : {int64_t(0), std::min(Whole, S.Steps - 1), S.Steps - 1})
      if (Step >= 0)
        Sizes.push_back(S.size(Step));
  }
  return Sizes;
}

std::vector<int64_t> poplar::runtime::countLogitColumns(const Executor &Exec,
                                                        Collectives &Group) {
  const PoplarProgram &Program = Exec.program();
  std::vector<int64_t> Columns(static_cast<size_t>(Program.world_size));
  if (!Program.pipeline ||
      Program.pipeline->group + 1 == Program.pipeline->num_groups)
    Columns[static_cast<size_t>(Group.rank())] = Exec.model().logits_columns;
  Group.sum(Columns.data(), Program.world_size);
  return Columns;
}

int poplar::runtime::getThreads(const PoplarProgram &Program, const Options &O,
                                int Rank) {
  if (O.Threads || !Program.ranks)
    return static_cast<int>(O.Threads);
  return static_cast<int>(Program.ranks[Rank].threads);
}

/// Rows of logits of ranks that share units, one rank's after the other's, as
/// rows of the whole vocabulary. `Columns` are those of each.
static void joinColumns(const float *Parts, int64_t Rows,
                        const std::vector<int64_t> &Columns, float *Out) {
  int64_t Width = std::accumulate(Columns.begin(), Columns.end(), int64_t(0)),
          First = 0;
  for (int64_t Count : Columns) {
    for (int64_t Row = 0; Row < Rows; ++Row, Parts += Count)
      std::copy(Parts, Parts + Count, Out + Row * Width + First);
    First += Count;
  }
}

std::vector<float> poplar::runtime::gatherLogits(const Executor &Exec,
                                                 Collectives &Group,
                                                 const std::vector<float> &Own,
                                                 int64_t GlobalBatch,
                                                 int64_t MicroBatch) {
  const PoplarProgram &Program = Exec.program();
  int64_t SeqLen = Exec.model().seq_len;
  std::vector<int64_t> Columns = countLogitColumns(Exec, Group), Bounds = {0};
  auto CountRows = [&](int64_t R) {
    return SeqLen *
           getShare(Program, static_cast<int>(R), MicroBatch, GlobalBatch, true)
               .Samples;
  };
  for (int64_t R = 0; R < Program.world_size; ++R)
    Bounds.push_back(Bounds.back() +
                     CountRows(R) * Columns[static_cast<size_t>(R)]);
  bool Leads = Group.rank() == 0;
  auto Count = static_cast<size_t>(Leads ? Bounds.back() : 0);
  std::vector<float> All(Count);
  Group.gather(Own.data(), All.data(), Bounds.data());
  std::vector<float> Logits(Count);
  for (int64_t R = 0; Leads && R < Program.world_size; ++R) {
    auto First = static_cast<size_t>(R);
    if (Program.ranks[R].position != 0)
      continue;
    int64_t Sharers = std::max<int64_t>(Program.ranks[R].num_sharers, 1);
    std::vector<int64_t> Widths(Columns.begin() + R,
                                Columns.begin() + R + Sharers);
    joinColumns(All.data() + Bounds[First], CountRows(R), Widths,
                Logits.data() + Bounds[First]);
  }
  return Logits;
}

//===- Sample.cpp - Continuing a prompt -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "job/Fingerprint.h"
#include "job/Group.h"
#include "job/Job.h"
#include "support/Error.h"
#include "support/Random.h"
#include "training/Trainer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

using namespace poplar::runtime;

static std::vector<int32_t> parsePrompt(const Options &O,
                                        const ModelInfo &Model) {
  if (Model.VocabSize != 256 && O.PromptIds.empty() && O.DataFormat != "bytes")
    fail("the model has a vocabulary of ", Model.VocabSize,
         ", whose tokens are not bytes; give the prompt as --prompt-ids of the "
         "model's tokenizer (--data-format bytes insists on bytes)");
  std::vector<int32_t> Ids;
  for (unsigned char C : O.Prompt)
    Ids.push_back(C);
  const char *Next = O.PromptIds.data(), *End = Next + O.PromptIds.size();
  while (Next != End) {
    int32_t Id = 0;
    auto [Stop, Code] = std::from_chars(Next, End, Id);
    if (Code != std::errc() || (Stop != End && *Stop != ','))
      fail("--prompt-ids expects integers separated by commas");
    Ids.push_back(Id);
    Next = Stop == End ? End : Stop + 1;
  }
  if (Ids.empty())
    Ids.push_back('\n' < Model.VocabSize ? '\n' : 0);
  for (int32_t Id : Ids)
    if (Id < 0 || Id >= Model.VocabSize)
      fail("token ", Id, " of the prompt is outside the vocabulary of ",
           Model.VocabSize);
  return Ids;
}

/// Draws a token from logits; `Uniform` is in [0, 1).
static int32_t drawToken(const std::vector<float> &Logits, double Temperature,
                         int64_t TopK, double Uniform) {
  std::vector<int32_t> Order(Logits.size());
  for (size_t I = 0; I < Order.size(); ++I)
    Order[I] = static_cast<int32_t>(I);
  // Equal logits in the order of their ids, for the same text everywhere.
  std::stable_sort(Order.begin(), Order.end(), [&](int32_t A, int32_t B) {
    return Logits[static_cast<size_t>(A)] > Logits[static_cast<size_t>(B)];
  });
  if (Temperature <= 0)
    return Order.front();
  if (TopK > 0 && static_cast<size_t>(TopK) < Order.size())
    Order.resize(static_cast<size_t>(TopK));
  double Highest = Logits[static_cast<size_t>(Order.front())], Sum = 0;
  std::vector<double> Weights;
  for (int32_t Id : Order) {
    Weights.push_back(
        std::exp((Logits[static_cast<size_t>(Id)] - Highest) / Temperature));
    Sum += Weights.back();
  }
  double Rest = Uniform * Sum;
  for (size_t I = 0; I < Order.size(); ++I)
    if ((Rest -= Weights[I]) < 0)
      return Order[I];
  return Order.back();
}

static void printToken(int32_t Id, bool AsText) {
  if (AsText && Id < 256)
    std::putchar(Id);
  else
    std::printf(AsText ? "<%d>" : "%d ", Id);
}

/// All ranks draw the same tokens, of which the first prints.
static void sample(const PoplarProgram &Program, const Options &O,
                   Group *Ranks) {
  int Rank = Ranks ? Ranks->rank() : 0;
  Executor Exec(Program, {1}, static_cast<int>(O.Threads), Rank);
  Exec.collectives = Ranks;
  std::optional<comm::CommStream::MemoryGuard> Guard;
  if (Ranks) {
    Ranks->attach(Exec.state(), Exec.device());
    Guard.emplace(Ranks->stream());
  }
  const ModelInfo &Model = Exec.model();
  if (Model.Masked)
    fail("sample continues text, but this model is masked: it was trained "
         "to fill gaps");
  std::vector<int32_t> Text = parsePrompt(O, Model);
  if (Ranks)
    Ranks->agree({{"--checkpoint", describeCheckpoint(O.Checkpoint)}});
  loadWeights(Exec, O.Checkpoint);

  size_t Window = static_cast<size_t>(Model.SeqLen);
  std::vector<float> Logits(static_cast<size_t>(Model.VocabSize));
  std::vector<int32_t> Ids(Window);
  bool AsText = O.PromptIds.empty();
  auto Print = [&](int32_t Id) {
    if (Rank == 0)
      printToken(Id, AsText);
  };
  std::for_each(Text.begin(), Text.end(), Print);
  for (int64_t I = 0; I < O.Tokens; ++I) {
    if (Ranks)
      Ranks->setPhase("sampling", LongPhase);
    // The newest tokens that fit; what follows them is masked by causality.
    size_t Count = std::min(Text.size(), Window);
    std::fill(std::copy(Text.end() - static_cast<ptrdiff_t>(Count), Text.end(),
                        Ids.begin()),
              Ids.end(), 0);
    Exec.device().copyIn(Exec.sized<int32_t>(Program.ids, 1), Ids.data(),
                         Model.SeqLen * 4);
    Exec.infer(1);
    Exec.readLogits(1, static_cast<int64_t>(Count) - 1, 1, Logits.data());
    if (!std::all_of(Logits.begin(), Logits.end(),
                     [](float Logit) { return std::isfinite(Logit); }))
      fail("'", O.Checkpoint,
           "' predicts values that are not finite: its weights have "
           "diverged or are damaged");
    uint64_t Bits = hashCounters(static_cast<uint64_t>(O.Seed),
                                 static_cast<uint64_t>(Stream::Sampling), I);
    Text.push_back(drawToken(Logits, O.Temperature, O.TopK, toUniform(Bits)));
    Print(Text.back());
    std::fflush(stdout);
  }
  if (Rank == 0)
    std::putchar('\n');
}

void poplar::runtime::runSampling(const PoplarProgram &Program,
                                  const Options &O) {
  if (Program.pipeline)
    fail("this is a stage of a pipeline, which has a part of the model; resume "
         "the run under a plan without groups and sample from that");
  // Before stage 3, every rank has the whole model.
  if (Program.world_size == 1 || Program.stage < 3)
    return sample(Program, O, nullptr);
  runJob(Program, O, [&](Group *Ranks) { sample(Program, O, Ranks); });
}

//===- Course.cpp - How long and how fast a run trains --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Course.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;

namespace {

/// Defaults that differ between kinds of runs. Learning rates and decays of
/// fine-tuning are those that users of PEFT, TRL and axolotl start from.
struct KindDefaults {
  const char *Name, *Title;
  double Rate, WeightDecay, ValFraction;
  /// Whether checkpoints and validations are at the ends of epochs.
  bool ByEpoch;
};

} // namespace

static constexpr KindDefaults Kinds[] = {
    {"pre-training", "pre-training", 6e-4, 0.1, 0.1, false},
    {"fine-tuning", "fine-tuning of all weights", 2e-5, 0, 0, true},
    {"adapters", "fine-tuning of adapters", 2e-4, 0, 0, true}};

/// Steps between validations of pre-training, and minutes between checkpoints.
static constexpr int64_t EvalEvery = 100, EvalBatches = 20;
static constexpr double SaveMinutes = 30;
/// Checkpoints and validations that a run has at most by epochs.
static constexpr int64_t MostByEpoch = 10;

static const KindDefaults &getDefaults(RunKind Kind) {
  return Kinds[static_cast<size_t>(Kind)];
}

const char *poplar::runtime::getName(RunKind Kind) {
  return getDefaults(Kind).Name;
}

bool poplar::runtime::parseRunKind(std::string_view Name, RunKind &Result) {
  for (size_t I = 0; I < std::size(Kinds); ++I)
    if (Name == Kinds[I].Name) {
      Result = static_cast<RunKind>(I);
      return true;
    }
  return false;
}

RunKind poplar::runtime::getRunKind(const ModelInfo &Model,
                                    const Options &Given) {
  return Model.Adapter.Rank    ? RunKind::Adapters
         : !Given.Init.empty() ? RunKind::FineTuning
                               : RunKind::PreTraining;
}

/// Negative values stand for defaults.
template <typename T> static void decide(T &Value, T Default) {
  if (Value < 0)
    Value = Default;
}

Options poplar::runtime::decideByKind(Options O, const Beginning &Begun) {
  const KindDefaults &Defaults = getDefaults(Begun.Kind);
  decide(O.Rate, Defaults.Rate);
  decide(O.MinRate, O.Rate / 10);
  decide(O.WeightDecay, Defaults.WeightDecay);
  decide(O.ValFraction, Defaults.ValFraction);
  if (O.ValSplit == "auto")
    O.ValSplit = Begun.ValSplit;
  return O;
}

int64_t poplar::runtime::countSteps(double Epochs, int64_t Samples,
                                    int64_t GlobalBatch) {
  double Steps = std::ceil(Epochs * static_cast<double>(Samples) /
                           static_cast<double>(GlobalBatch));
  if (Steps > static_cast<double>(LargestCount))
    fail("--epochs ", Epochs, " of ", Samples,
         " samples are more steps than --steps may be, ", LargestCount);
  return static_cast<int64_t>(Steps);
}

/// The epoch's steps or, where that would be too often, a part of the run's.
static int64_t getInterval(int64_t Steps, int64_t Samples,
                           int64_t GlobalBatch) {
  return std::max({countSteps(1, Samples, GlobalBatch),
                   (Steps + MostByEpoch - 1) / MostByEpoch, int64_t(1)});
}

Options poplar::runtime::decideByData(Options O, RunKind Kind, int64_t Samples,
                                      int64_t GlobalBatch) {
  if (O.Epochs >= 0)
    O.Steps = countSteps(O.Epochs, Samples, GlobalBatch);
  O.Steps = std::max<int64_t>(O.Steps, 0);
  // As transformers counts these.
  auto TakePart = [&](double Part, int64_t &Count) {
    if (Part >= 0)
      Count =
          static_cast<int64_t>(std::ceil(Part * static_cast<double>(O.Steps)));
  };
  TakePart(O.EvalRatio, O.EvalEvery);
  TakePart(O.SaveRatio, O.SaveEvery);
  TakePart(O.WarmupRatio, O.Warmup);
  if (O.MostWarmup >= 0)
    O.Warmup = std::min(O.Warmup, O.MostWarmup);
  decide(O.Warmup, std::min<int64_t>(O.Steps / 20, 100));
  decide(O.DecaySteps, O.ScheduleName == "wsd" ? O.Steps / 5 : O.Steps);
  int64_t Interval = getInterval(O.Steps, Samples, GlobalBatch);
  bool ByEpoch = getDefaults(Kind).ByEpoch;
  decide(O.SaveMinutes, O.SaveEvery < 0 && !O.SkipSave ? SaveMinutes : 0);
  decide(O.SaveEvery, ByEpoch && !O.SkipSave ? Interval : 0);
  decide(O.EvalEvery, ByEpoch ? Interval : EvalEvery);
  decide(O.EvalBatches, EvalBatches);
  return O;
}

namespace {
/// "defaults: --lr 0.0002, --weight-decay 0".
class DefaultList {
public:
  template <typename T> void add(const char *Option, T Given, T Decided) {
    if (Given >= 0)
      return;
    std::ostringstream Value;
    Value << Decided;
    add(std::string("--") + Option + " " + Value.str());
  }
  void add(const std::string &One) {
    Text += (Text.empty() ? "; defaults: " : ", ") + One;
  }
  const std::string &text() const { return Text; }

private:
  std::string Text;
};
} // namespace

std::string poplar::runtime::describeCourse(const Options &Given,
                                            const Options &Decided,
                                            RunKind Kind, int64_t Samples,
                                            int64_t GlobalBatch,
                                            int64_t Validated, int64_t Held) {
  std::ostringstream Text;
  Text.precision(4);
  Text << getDefaults(Kind).Title << ", ";
  auto Count = [&](int64_t Number, const char *What) {
    Text << Number << " " << What << (Number == 1 ? "" : "s");
  };
  Count(Decided.Steps, "step");
  double Epochs = Given.Epochs >= 0 ? Given.Epochs
                                    : static_cast<double>(Decided.Steps) *
                                          static_cast<double>(GlobalBatch) /
                                          static_cast<double>(Samples);
  Text << " (" << Epochs << (Epochs == 1 ? " epoch of " : " epochs of ");
  Count(Samples, "sample");
  Text << ")";
  DefaultList List;
  List.add("lr", Given.Rate, Decided.Rate);
  List.add("weight-decay", Given.WeightDecay, Decided.WeightDecay);
  if (Given.WarmupRatio < 0)
    List.add("warmup", Given.Warmup, Decided.Warmup);
  if (Decided.SaveEvery > 0 && Given.SaveRatio < 0)
    List.add("save-every", Given.SaveEvery, Decided.SaveEvery);
  if (Decided.SaveMinutes > 0)
    List.add("save-minutes", Given.SaveMinutes, Decided.SaveMinutes);
  if (Validated && Given.EvalRatio < 0)
    List.add("eval-every", Given.EvalEvery, Decided.EvalEvery);
  if (Validated < Held && Given.EvalBatches < 0 && Validated)
    List.add("--eval-batches " + std::to_string(Decided.EvalBatches) +
             ", which reads " + std::to_string(Validated) + " of " +
             std::to_string(Held) + " samples");
  bool IsShared = Given.ValData.empty() && Given.DataIds.empty();
  if (IsShared && Decided.ValFraction > 0)
    List.add("val-fraction", Given.ValFraction, Decided.ValFraction);
  else if (IsShared && Given.ValFraction < 0)
    List.add("no validation (--val-data, --val-fraction)");
  if (Given.WarmupRatio >= 0) {
    Text << ", ";
    Count(Decided.Warmup, "step");
    Text << " of warm-up";
  }
  return Text.str() + List.text() + "\n";
}

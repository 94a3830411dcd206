//===- Resumption.cpp - What a resumed run has other than before ----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Resumption.h"
#include "data/Sources.h"
#include "job/Fingerprint.h"
#include "support/Error.h"
#include "support/MappedFile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

using namespace poplar::runtime;

using Record = TrainingState::Record;

/// Bytes of a file that are compared with those of the run so far: a start does
/// not wait for a large corpus.
static constexpr int64_t ComparedBytes = 16 << 20;
/// Steps at which schedules are compared, at most.
static constexpr int64_t ComparedSteps = 10000;

/// Options that only decide the learning rate.
static constexpr const char *RateOptions[] = {
    "lr",          "min-lr",       "warmup",      "schedule", "steps",
    "decay-steps", "warmup-start", "decay-shape", "cycles",   "power"};
/// Options that are recorded if they differ from their defaults, because runs
/// of earlier versions do not have them.
static constexpr const char *LaterOptions[] = {
    "warmup-start",  "decay-shape", "cycles",         "power",
    "long-examples", "preference",  "preference-beta"};

static bool isLater(const std::string &Name) {
  return std::find(std::begin(LaterOptions), std::end(LaterOptions), Name) !=
         std::end(LaterOptions);
}

Schedule poplar::runtime::makeSchedule(const Options &O) {
  Schedule S;
  if (!Schedule::parse(O.ScheduleName, S.Kind))
    fail("unknown --schedule '", O.ScheduleName,
         "'; use constant, linear, cosine, cosine-restarts, polynomial, "
         "inverse-sqrt or wsd");
  if (!Schedule::parse(O.WarmupStart, S.From))
    fail("unknown --warmup-start '", O.WarmupStart,
         "'; use step, zero or minimum");
  if (!Schedule::parse(O.DecayShape, S.Falling))
    fail("unknown --decay-shape '", O.DecayShape,
         "'; use linear, cosine or sqrt");
  S.Cycles = O.Cycles;
  S.Power = O.Power;
  S.Peak = O.Rate;
  S.Minimum = O.MinRate;
  S.Warmup = O.Warmup;
  S.Steps = O.Steps;
  (S.Kind == Schedule::WarmupStableDecay ? S.Decay : S.Steps) = O.DecaySteps;
  return S;
}

Record poplar::runtime::recordOptions(const Options &Decided,
                                      int64_t GlobalBatch) {
  Options O = Decided;
  O.GlobalBatch = GlobalBatch;
  Record Result, Defaults;
  for (const OptionValue &Option : getOptionValues(Options()))
    Defaults[Option.Name] = Option.Value;
  for (const OptionValue &Option : getOptionValues(O)) {
    if (isLater(Option.Name) && Option.Value == Defaults[Option.Name])
      continue;
    bool IsRecorded = Option.Name == "steps" || Option.Name == "global-batch" ||
                      Option.Group == "Data" ||
                      Option.Group == "Optimizer (AdamW)";
    // Warm-up is recorded as steps, not as a ratio. A loss scale has its own
    // place in the state.
    if (IsRecorded && Option.Rule == Agreement::Same &&
        Option.Name != "warmup-ratio" && Option.Name != "most-warmup" &&
        Option.Name != "loss-scale")
      Result[Option.Name] = Option.Value;
  }
  return Result;
}

Record poplar::runtime::recordData(const Options &O, const Sources &Data) {
  Record Result;
  for (auto &[Name, What] : describeFiles(O, Data, ComparedBytes))
    Result[Name] = What;
  if (!O.Tokenizer.empty()) {
    Fingerprint Print(ComparedBytes);
    Print.add(MappedFile(O.Tokenizer));
    Result["--tokenizer"] = Print.describe();
  }
  return Result;
}

static std::string find(const Record &R, const std::string &Name) {
  auto Found = R.find(Name);
  return Found == R.end() ? "none" : Found->second;
}

/// The schedule of a record; false if it lacks a part.
static bool readSchedule(const Record &R, Schedule &Result) {
  Options O;
  auto Read = [&](const char *Name, auto &Value) {
    auto Found = R.find(Name);
    char *End = nullptr;
    if (Found == R.end())
      return false;
    double Number = std::strtod(Found->second.c_str(), &End);
    Value = static_cast<std::decay_t<decltype(Value)>>(Number);
    return End != Found->second.c_str() && std::isfinite(Number) &&
           std::abs(Number) <= static_cast<double>(LargestCount);
  };
  auto ReadName = [&](const char *Name, std::string &Value) {
    std::string Quoted = find(R, Name);
    if (Quoted.size() > 2 && Quoted.front() == '\'')
      Value = Quoted.substr(1, Quoted.size() - 2);
  };
  ReadName("schedule", O.ScheduleName);
  ReadName("warmup-start", O.WarmupStart);
  ReadName("decay-shape", O.DecayShape);
  Read("cycles", O.Cycles);
  Read("power", O.Power);
  Schedule::Shape Kind;
  Schedule::Start Start;
  Schedule::Fall Fall;
  if (!Schedule::parse(O.ScheduleName, Kind) ||
      !Schedule::parse(O.WarmupStart, Start) ||
      !Schedule::parse(O.DecayShape, Fall) || !Read("lr", O.Rate) ||
      !Read("min-lr", O.MinRate) || !Read("warmup", O.Warmup) ||
      !Read("steps", O.Steps) || !Read("decay-steps", O.DecaySteps))
    return false;
  Result = makeSchedule(O);
  return true;
}

/// The first of the steps [Begin, End) at which two schedules differ, or End.
static int64_t findDifference(const Schedule &A, const Schedule &B,
                              int64_t Begin, int64_t End) {
  int64_t Stride = (End - Begin) / ComparedSteps + 1;
  for (int64_t Step = Begin; Step < End; Step += Stride)
    if (std::abs(A.at(Step) - B.at(Step)) > 1e-9 * std::abs(A.at(Step)))
      return Step;
  return End;
}

/// "--lr was 0.1 and is 0.2, ..." of what two records have unlike.
static std::string listChanges(const Record &Before, const Record &Now,
                               const char *Prefix) {
  Record All = Before;
  All.insert(Now.begin(), Now.end());
  std::string Text;
  for (const auto &[Name, Value] : All) {
    std::string Old = find(Before, Name), New = find(Now, Name);
    if (Old != New)
      Text += (Text.empty() ? "" : ", ") + (Prefix + Name) + " was " + Old +
              " and is " + New;
  }
  return Text;
}

/// Without --min-lr, if that has its default, which follows --lr.
static Record takeRates(const Record &R, const Schedule &S) {
  Record Result;
  for (const char *Name : RateOptions)
    if (!isLater(Name) || R.count(Name))
      Result[Name] = find(R, Name);
  if (S.Minimum == S.Peak / 10)
    Result["min-lr"] = "lr / 10";
  return Result;
}

/// Options that bring the earlier schedule back, whose end is not the run's.
static std::string listRemedies(const Record &Before, const Record &Now) {
  std::string Text;
  for (const auto &[Name, Value] : Before)
    if (Name != "steps" && find(Now, Name) != Value)
      Text += (Text.empty() ? "--" : " --") + Name + " " + Value;
  return Text;
}

static std::string describeRates(const TrainingState &Before, const Record &Now,
                                 const Schedule &Rates, int64_t Steps) {
  Schedule Old;
  if (!readSchedule(Before.Options, Old))
    return "";
  int64_t Step = findDifference(Old, Rates, Before.Step, Steps);
  if (Step == Steps)
    return "";
  Record Earlier = takeRates(Before.Options, Old),
         Later = takeRates(Now, Rates);
  std::ostringstream Text;
  Text.precision(4);
  Text << "note: the learning rate of step " << Step + 1 << " is "
       << Rates.at(Step) << ", and " << Old.at(Step)
       << " in the schedule of the run so far, whose last step had "
       << Old.at(Before.Step - 1) << ": " << listChanges(Earlier, Later, "--");
  if (std::string Remedies = listRemedies(Earlier, Later);
      Old.Kind != Schedule::WarmupStableDecay && !Remedies.empty())
    Text << "; for that schedule: " << Remedies;
  return Text.str() + "\n";
}

std::string poplar::runtime::describeChanges(const TrainingState &Before,
                                             const Record &Options,
                                             const Record &Data,
                                             const Schedule &Rates,
                                             int64_t Steps) {
  if (Before.Options.empty())
    return "note: the run was begun by an earlier version, which does not say "
           "with what options and data\n";
  auto DropRates = [](Record R) {
    for (const char *Name : RateOptions)
      R.erase(Name);
    return R;
  };
  std::string Text = describeRates(Before, Options, Rates, Steps);
  if (std::string Others =
          listChanges(DropRates(Before.Options), DropRates(Options), "--");
      !Others.empty())
    Text += "note: options are other than in the run so far: " + Others + "\n";
  if (std::string Files = listChanges(Before.Data, Data, ""); !Files.empty())
    Text += "note: data are other than in the run so far: " + Files + "\n";
  return Text;
}

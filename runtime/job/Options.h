//===- Options.h - Command line and configuration files ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_OPTIONS_H
#define POPLAR_RUNTIME_OPTIONS_H

#include "support/RowOptions.h"
#include "support/TokenChoice.h"

#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime {

/// The largest count of steps, samples or tokens that an option may give.
constexpr int64_t LargestCount = 1000000000;
/// A loss scale is saved as an integer.
constexpr double LargestLossScale = 0x1p62;

/// How far the ranks of a job must agree on an option.
enum class Agreement {
  /// All have the same value.
  Same,
  /// The files that it names have the same contents; their paths may differ.
  Contents,
  /// Not at all: it concerns the rank's machine alone.
  PerRank
};

/// Negative numbers have not been given: training/Course.h decides them.
struct Options {
  enum Command {
    Train,
    Evaluate,
    Sample,
    Profile,
    Links,
    Doctor,
    Info,
    Merge,
    Export,
    ListOptions,
    Help
  };
  Command TheCommand = Train;
  /// Which command --help is asked of.
  Command HelpOf = Train;

  // Data.
  std::vector<std::string> Data, ValData, IgnoredMembers;
  std::string DataFormat = "auto", DataIds, Tokenizer, ChatTemplate, ChatDate,
              ValSplit = "auto", LongExamples = "cut";
  double ValFraction = -1;
  RowOptions Rows;
  int64_t LeastTokens = 0;
  bool DropEqual = false;
  // Run.
  std::string Out, Init, InitAdapter, Format = "bf16";
  /// "dpo", "orpo" or empty.
  std::string Preference;
  double PreferenceBeta = 0.1;
  int64_t Steps = -1;
  double Epochs = -1, SaveMinutes = -1;
  int64_t Seed = 1, SaveEvery = -1, Keep = 2, LogEvery = 10;
  int64_t EvalEvery = -1, EvalBatches = -1;
  double SaveRatio = -1, EvalRatio = -1;
  /// No limit below 0.
  double StopAbove = -1;
  int64_t StopAfter = 3, Patience = -1;
  bool KeepBest = false;
  bool Resume = false, BigramBaseline = false;
  // Batch and machine. A micro-batch of 0 is chosen by the memory at hand, a
  // global batch of 0 by the plan.
  int64_t MicroBatch = 0, GlobalBatch = 0, Threads = 0;
  double PeakGFlops = 0;
  // Optimizer.
  double Rate = -1, MinRate = -1, WeightDecay = -1, Beta1 = 0.9, Beta2 = 0.95,
         Epsilon = 1e-8, Clip = 1.0;
  std::string ScheduleName = "cosine", WarmupStart = "step",
              DecayShape = "linear";
  int64_t Warmup = -1, DecaySteps = -1, MostWarmup = -1, Cycles = 1;
  double WarmupRatio = -1, Power = 1;
  double LossScale = 65536;
  // Ranks.
  std::string Comm = "auto", LinkDelay, Trace, Ranks;
  // For tests.
  std::string DumpGradients, DumpLogits, DumpProducts, ReportMemory;
  bool CheckData = false;
  bool DumpLoss = false, CheckAllocations = false, CheckReplicas = false,
       SkipSave = false;
  // Sampling.
  std::string Checkpoint, Prompt, PromptIds, Chat;
  int64_t Tokens = 200;
  TokenChoice Choice;
  bool NoCache = false;
  // Profiling. Memory and seconds of 0 are unlimited.
  int64_t Rank = 0, MaxBatch = 64, Memory = 0;
  double Seconds = 0;
  bool UntilLevel = false, Loaded = false;
  // The file of measurements to continue from, and what they measure.
  std::string Journal, Identity;

  /// Whether data or one batch is to be looked at, and nothing trained.
  bool isDump() const {
    return CheckData || DumpLoss || !DumpGradients.empty() ||
           !DumpLogits.empty() || !DumpProducts.empty();
  }
};

/// Reads the command line and the --config file it names, which it overrides.
Options parseOptions(int Argc, const char *const *Argv);

/// An option as a rank has it: given, from a file, or the default.
struct OptionValue {
  /// The group is a heading of --help.
  std::string Name, Value, Group;
  Agreement Rule;
};

/// All options that there are, in the order of --help.
std::vector<OptionValue> getOptionValues(const Options &O);

/// The name of the command, as it is given.
const char *getCommandName(Options::Command C);

/// The text of --help.
std::string getHelp(Options::Command Command);

/// An option as --help has it.
struct OptionText {
  std::string Name, Help, Group;
  /// What stands for its value; empty for a flag.
  std::string Placeholder;
};

/// The options that --help of a command lists.
std::vector<OptionText> describeOptions(Options::Command Command);

/// For scripts: a line for each option with its name, its kind (text, integer,
/// number or flag), what ranks must have alike of it (same, contents or
/// per-rank) and its default, separated by tabs.
std::string listOptions();

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_OPTIONS_H

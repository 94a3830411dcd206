//===- Options.cpp - Command line and configuration files -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "job/OptionReader.h"
#include "support/CommandName.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <tuple>

using namespace poplar::runtime;

static std::string join(const std::vector<std::string> &List,
                        const char *Separator) {
  std::string Text;
  for (const std::string &Each : List)
    Text += (&Each == &List.front() ? "" : Separator) + Each;
  return Text;
}

static std::vector<Spec> getSpecs(Options &O, std::string &Config) {
  return {
      {"data", &O.Data, 0, "FILE|GLOB[=WEIGHT]",
       "text, tokens or examples in JSON to train on; a quoted glob names "
       "several files of text or tokens; repeatable, each with a weight "
       "(default: in proportion to its samples)",
       "Data", Agreement::Contents},
      {"data-format", &O.DataFormat, 0, "NAME",
       "format of --data: auto, text, jsonl, bytes, u16, u32, i32, i64, llmc "
       "or npy (default: auto, by content)"},
      {"ignore-member", &O.IgnoredMembers, 0, "NAME",
       "member of examples in JSON to train without, although it may change "
       "what they mean; messages.NAME for one of their messages; repeatable"},
      {"read-member", &O.Rows.Members, 0, "NAME=MEMBER",
       "member of examples in JSON to read as NAME, such as "
       "messages=conversation, or messages.role=speaker for one of their "
       "messages; repeatable"},
      {"read-role", &O.Rows.Roles, 0, "ROLE=NAME",
       "role of messages to read as ROLE, such as assistant=bot; repeatable"},
      {"drop-system", &O.Rows.DropSystem, 0, "",
       "leave out the first message of a conversation if it is the system's"},
      {"prompt-format", &O.Rows.Prompt, 0, "TEXT",
       "prompt of examples with instruction and input, for which "
       "{instruction} and {input} stand; \\n is a line break (default: "
       "Alpaca's)"},
      {"prompt-format-alone", &O.Rows.PromptAlone, 0, "TEXT",
       "the same of examples without input (default: Alpaca's)"},
      {"system-format", &O.Rows.System, 0, "TEXT",
       "what the member system of such examples becomes in front of the "
       "prompt, with {system} (default: an example with it is a "
       "conversation)"},
      {"encode-apart", &O.Rows.Apart, 0, "",
       "encode prompts and completions apart, as axolotl does (default: both "
       "as one text)"},
      {"count-prompts", &O.Rows.CountsPrompts, 0, "",
       "let the tokens of prompts count as those of completions do"},
      {"tokenizer", &O.Tokenizer, 0, "FILE",
       "tokenizer.json or tokenizer.model for text (default: that of the "
       "model, if it was imported with one)",
       nullptr, Agreement::Contents},
      {"chat-template", &O.ChatTemplate, 0, "FILE|NAME",
       "template for conversations: a file of Jinja; chatml, llama-3, gemma, "
       "phi-3, phi-4 or phi-4-mini; mistral-common:v3 or :v7; or one of "
       "axolotl, such as axolotl:qwen3 (docs/examples.md; default: the model's "
       "own; if it ships none, by its tokens)"},
      {"chat-date", &O.ChatDate, 0, "YYYY-MM-DD",
       "date for chat templates that write the current date (default: "
       "none in training, today in sample)"},
      {"val-data", &O.ValData, 0, "FILE|GLOB",
       "data to validate on; repeatable (default: a part of every --data)",
       nullptr, Agreement::Contents},
      {"val-fraction", &O.ValFraction, 0, "X",
       "part of --data that is held out for validation (default: 0.1; none "
       "for fine-tuning)"},
      {"val-split", &O.ValSplit, 0, "NAME",
       "held-out part: the end of every --data, or random examples, which "
       "depend on the seed (default: auto, which is random for examples in "
       "JSON "
       "and end for others)"},
      {"long-examples", &O.LongExamples, 0, "NAME",
       "what becomes of examples in JSON that are longer than the sequence: "
       "cut "
       "at its end and one more target, split into several, overlap, which "
       "makes windows of texts that have tokens in common, drop, or fail "
       "(default: cut)"},
      {"least-tokens", &O.LeastTokens, 0, "N",
       "tokens that an example in JSON, or a part of a split one, has at "
       "least; "
       "shorter ones are left out (default: 0)"},
      {"drop-equal", &O.DropEqual, 0, "",
       "leave out examples in JSON whose tokens equal those of an earlier one"},
      {"data-ids", &O.DataIds, 0, "FILE",
       "samples as raw i32: seq_len ids, then seq_len targets; a target of -1 "
       "is not counted",
       nullptr, Agreement::Contents},
      {"check-data", &O.CheckData, 0, "",
       "read all data as training would, say what they hold, and stop; needs "
       "no memory for the model"},
      {"preference", &O.Preference, 0, "NAME",
       "train on pairs of a chosen and a rejected answer: dpo, against the "
       "model before the first step, or orpo, without a reference (default: "
       "train on examples)"},
      {"preference-beta", &O.PreferenceBeta, 0, "X",
       "beta of dpo; weight of orpo's odds ratio (default: 0.1)"},
      {"steps", &O.Steps, 0, "N",
       "optimizer steps of the whole run, including those before --resume; 0 "
       "saves the initial model",
       "Run"},
      {"epochs", &O.Epochs, 0, "X",
       "passes over the data, in place of --steps"},
      {"out", &O.Out, 0, "RUN",
       "directory for checkpoints and metrics; for merge, directory for the "
       "model; for export, profile and links, a file"},
      {"format", &O.Format, 0, "NAME",
       "how matrices are stored: f32, f16, bf16 or q8_0 (default: bf16)"},
      {"resume", &O.Resume, 0, "",
       "continue from the latest checkpoint in --out"},
      {"init", &O.Init, 0, "PATH",
       "start from the weights of a run or of a Hugging Face checkpoint",
       nullptr, Agreement::Contents},
      {"init-adapter", &O.InitAdapter, 0, "PATH",
       "start adapters from those of a run or of a PEFT directory", nullptr,
       Agreement::Contents},
      {"seed", &O.Seed, 0, "N",
       "random seed of weights, data order and dropout (default: 1)"},
      {"save-every", &O.SaveEvery, 0, "N",
       "steps between checkpoints; 0 for none of these (default: 0; an epoch "
       "for fine-tuning, or a tenth of the run if that is longer)"},
      {"save-ratio", &O.SaveRatio, 0, "X",
       "part of the run between checkpoints, in place of --save-every"},
      {"save-minutes", &O.SaveMinutes, 0, "X",
       "longest time between checkpoints, in minutes; 0 for no limit "
       "(default: 30; no limit with --save-every or --save-ratio)"},
      {"keep", &O.Keep, 0, "N", "checkpoints to keep; 0 for all (default: 2)"},
      {"eval-every", &O.EvalEvery, 0, "N",
       "steps between validations; 0 for none (default: 100; an epoch for "
       "fine-tuning, or a tenth of the run if that is longer)"},
      {"eval-ratio", &O.EvalRatio, 0, "X",
       "part of the run between validations, in place of --eval-every"},
      {"eval-batches", &O.EvalBatches, 0, "N",
       "batches of a validation: micro-batches of one device, global batches "
       "of a plan; 0 for all held-out samples (default: 20)"},
      {"stop-above", &O.StopAbove, 0, "X",
       "end the run when the training loss is above X in several steps in a "
       "row (default: no limit)"},
      {"stop-after", &O.StopAfter, 1, "N",
       "steps in a row above --stop-above (default: 3)"},
      {"patience", &O.Patience, 1, "N",
       "end the run after N validations in a row whose loss is no lower than "
       "the lowest before (default: no limit)"},
      {"keep-best", &O.KeepBest, 0, "",
       "also save and keep the checkpoint with the lowest validation loss, as "
       "RUN/best"},
      {"log-every", &O.LogEvery, 1, "N",
       "steps between lines of output (default: 10)"},
      {"bigram-baseline", &O.BigramBaseline, 0, "",
       "also print the loss of a bigram model of the training data"},
      {"config", &Config, 0, "FILE",
       "file of options: lines `option = value`, comments after #; or an "
       "object "
       "of JSON, {\"option\": value, ...}",
       nullptr, Agreement::PerRank},
      {"batch", &O.MicroBatch, 0, "N",
       "samples per micro-batch; 0 to choose by free memory (default: 0)",
       "Batch"},
      {"global-batch", &O.GlobalBatch, 1, "N",
       "samples per optimizer step (default: the plan's; 8 without a plan)"},
      {"threads", &O.Threads, 0, "N", "threads; 0 for all cores (default: 0)",
       nullptr, Agreement::PerRank},
      {"peak-gflops", &O.PeakGFlops, 0, "X",
       "peak GFLOP/s of the device, for MFU; 0 to measure it (default: 0)",
       nullptr, Agreement::PerRank},
      {"lr", &O.Rate, 0, "X",
       "peak learning rate (default: 6e-4; 2e-5 for fine-tuning, 2e-4 for "
       "adapters)",
       "Optimizer (AdamW)"},
      {"min-lr", &O.MinRate, 0, "X", "last learning rate (default: lr / 10)"},
      {"warmup", &O.Warmup, 0, "N",
       "steps of warm-up (default: steps / 20, at most 100)"},
      {"warmup-ratio", &O.WarmupRatio, 0, "X",
       "part of the steps that is warm-up, in place of --warmup"},
      {"most-warmup", &O.MostWarmup, 0, "N",
       "most steps of warm-up that --warmup-ratio gives (default: no limit)"},
      {"warmup-start", &O.WarmupStart, 0, "NAME",
       "learning rate before the warm-up: step, which begins one step above 0, "
       "zero, as in transformers, or minimum for --min-lr (default: step)"},
      {"schedule", &O.ScheduleName, 0, "NAME",
       "learning rate schedule: constant, linear, cosine, cosine-restarts, "
       "polynomial, inverse-sqrt or wsd (default: cosine)"},
      {"decay-steps", &O.DecaySteps, 0, "N",
       "step at which --min-lr is reached; for wsd, steps of the decay "
       "(default: --steps)"},
      {"decay-shape", &O.DecayShape, 0, "NAME",
       "shape of the decay of wsd: linear, cosine or sqrt (default: linear)"},
      {"cycles", &O.Cycles, 1, "N",
       "decays of cosine-restarts, each from --lr (default: 1)"},
      {"power", &O.Power, 0, "X",
       "power of the decay of polynomial (default: 1)"},
      {"weight-decay", &O.WeightDecay, 0, "X",
       "weight decay (default: 0.1; 0 for fine-tuning)"},
      {"beta1", &O.Beta1, 0, "X", "decay of the first moment (default: 0.9)"},
      {"beta2", &O.Beta2, 0, "X", "decay of the second moment (default: 0.95)"},
      {"eps", &O.Epsilon, 0, "X", "term added to the root (default: 1e-8)"},
      {"loss-scale", &O.LossScale, 1, "X",
       "first loss scale of devices that keep activations in f16 (default: "
       "65536)"},
      {"clip", &O.Clip, 0, "X",
       "gradient norm to clip to; 0 for none (default: 1)"},
      {"checkpoint", &O.Checkpoint, 0, "PATH",
       "a run, or one of its checkpoints", "Sampling", Agreement::Contents},
      {"format", &O.Format, 0, "NAME",
       "how export stores matrices: f32, f16, bf16 or q8_0 (default: bf16)"},
      {"prompt", &O.Prompt, 0, "TEXT", "text to continue"},
      {"prompt-ids", &O.PromptIds, 0, "N,N,...", "the prompt as token ids"},
      {"chat", &O.Chat, 0, "TEXT",
       "a user's message to answer, formatted by the tokenizer's chat "
       "template; only the answer is printed"},
      {"tokens", &O.Tokens, 1, "N",
       "tokens to generate, at most; text of a tokenizer ends at the model's "
       "eos_token_id (default: 200)"},
      {"temperature", &O.Choice.Temperature, 0, "X",
       "sampling temperature; 0 for the likeliest token (default: 0.8)"},
      {"top-k", &O.Choice.TopK, 0, "N",
       "choose among the N likeliest tokens; 0 for all (default: 0)"},
      {"top-p", &O.Choice.TopP, 0, "X",
       "choose among the fewest likeliest tokens whose probabilities add up to "
       "X; 1 for all (default: 1)"},
      {"min-p", &O.Choice.MinP, 0, "X",
       "choose among tokens that are at least X times as likely as the "
       "likeliest; 0 for all (default: 0)"},
      {"no-cache", &O.NoCache, 0, "",
       "compute the whole sequence for every token, without a KV cache"},
      {"rank", &O.Rank, 0, "N", "rank whose shards are allocated (default: 0)",
       "Profiling"},
      {"max-batch", &O.MaxBatch, 2, "N",
       "largest micro-batch to measure (default: 64)"},
      {"until-level", &O.UntilLevel, 0, "",
       "stop when larger micro-batches are no faster"},
      {"seconds", &O.Seconds, 0, "X",
       "end about then, with smaller micro-batches and fewer repetitions; 0 "
       "for no limit (default: 0)"},
      {"memory", &O.Memory, 0, "BYTES",
       "memory of the device; 0 for no limit (default: 0)"},
      {"loaded", &O.Loaded, 0, "",
       "keep the other cores of the machine busy meanwhile"},
      {"journal", &O.Journal, 0, "FILE",
       "file that keeps measurements, to continue after an interruption"},
      {"identity", &O.Identity, 0, "TEXT",
       "model, machine and versions; a journal with another identity is "
       "refused"},
      {"comm", &O.Comm, 0, "NAME",
       "transport of messages: auto, self, mpi or tcp (default: auto)",
       "Ranks"},
      {"link-delay", &O.LinkDelay, 0, "LATENCY_US,BANDWIDTH_GBPS",
       "delay messages between nodes as a link of this speed would"},
      {"ranks", &O.Ranks, 0, "FILE",
       "batches of the ranks, in the format of ranks.txt (default: the "
       "plan's)",
       nullptr, Agreement::Contents},
      {"trace", &O.Trace, 0, "FILE",
       "write a timeline of all ranks, for Perfetto"},
      {"dump-gradients", &O.DumpGradients, 0, "FILE",
       "write the gradients of the first batch and stop", "Testing"},
      {"dump-logits", &O.DumpLogits, 0, "FILE",
       "write the logits of the first batch, without dropout, and stop; in "
       "sample, the logits that each token was chosen from"},
      {"dump-products", &O.DumpProducts, 0, "FILE",
       "write the norms of the matrix products of the first micro-step and "
       "stop"},
      {"dump-loss", &O.DumpLoss, 0, "",
       "print the loss of the first batch and stop"},
      {"check-allocations", &O.CheckAllocations, 0, "",
       "fail if a step leaves memory allocated"},
      {"check-replicas", &O.CheckReplicas, 0, "",
       "fail if the replicas of the state differ between ranks at the end"},
      {"skip-save", &O.SkipSave, 0, "",
       "write no checkpoint, to measure large models"},
      {"report-memory", &O.ReportMemory, 0, "FILE",
       "write the memory use of every rank, as CSV"},
  };
}

static void check(const Options &O) {
  auto Require = [](bool Condition, const char *What) {
    if (!Condition)
      fail(What);
  };
  Require(O.ValFraction < 1, "--val-fraction must be below 1");
  Require(O.ValSplit == "auto" || O.ValSplit == "end" || O.ValSplit == "random",
          "--val-split is auto, end or random");
  Require(O.Steps < 0 || O.Epochs < 0, "give --steps or --epochs, not both");
  Require(O.Warmup < 0 || O.WarmupRatio < 0,
          "give --warmup or --warmup-ratio, not both");
  Require(O.WarmupRatio <= 1, "--warmup-ratio is at most 1");
  Require(O.MostWarmup < 0 || O.Warmup < 0,
          "--most-warmup is for --warmup-ratio");
  Require(O.EvalEvery < 0 || O.EvalRatio < 0,
          "give --eval-every or --eval-ratio, not both");
  Require(O.SaveEvery < 0 || O.SaveRatio < 0,
          "give --save-every or --save-ratio, not both");
  Require(O.EvalRatio <= 1 && O.SaveRatio <= 1,
          "--eval-ratio and --save-ratio are at most 1");
  Require(O.LongExamples == "cut" || O.LongExamples == "split" ||
              O.LongExamples == "overlap" || O.LongExamples == "drop" ||
              O.LongExamples == "fail",
          "--long-examples is cut, split, overlap, drop or fail");
  Require(O.Preference.empty() || O.Preference == "dpo" ||
              O.Preference == "orpo",
          "--preference is dpo or orpo");
  Require(O.Preference.empty() || O.DataIds.empty(),
          "--preference trains on pairs of --data, not on --data-ids");
  Require(O.Preference.empty() ||
              (O.LongExamples != "split" && O.LongExamples != "overlap"),
          "--long-examples of pairs is cut, drop or fail");
  Require(O.Beta1 < 1 && O.Beta2 < 1, "--beta1 and --beta2 must be below 1");
  Require(O.Choice.TopP <= 1 && O.Choice.MinP <= 1,
          "--top-p and --min-p are at most 1");
  Require(O.Choice.TopP > 0, "--top-p must be above 0; --temperature 0 takes "
                             "the likeliest token");
  Require(O.Threads <= 4096, "--threads is at most 4096");
  Require(O.LossScale <= LargestLossScale, "--loss-scale is at most 2^62");
  // Samples, tokens and bytes of a run must be countable in 64 bits.
  const std::pair<const char *, int64_t> Counts[] = {
      {"--steps", O.Steps},
      {"--save-every", O.SaveEvery},
      {"--eval-every", O.EvalEvery},
      {"--batch", O.MicroBatch},
      {"--global-batch", O.GlobalBatch},
      {"--eval-batches", O.EvalBatches},
      {"--max-batch", O.MaxBatch},
      {"--warmup", O.Warmup},
      {"--most-warmup", O.MostWarmup},
      {"--cycles", O.Cycles},
      {"--stop-after", O.StopAfter},
      {"--patience", O.Patience},
      {"--decay-steps", O.DecaySteps},
      {"--tokens", O.Tokens}};
  for (auto [Name, Value] : Counts)
    if (Value > LargestCount)
      fail(Name, " is at most ", LargestCount);
  if (O.TheCommand == Options::Sample) {
    Require(!O.Checkpoint.empty(), "sample needs --checkpoint");
    Require(!O.Prompt.empty() + !O.PromptIds.empty() + !O.Chat.empty() <= 1,
            "give one of --prompt, --prompt-ids and --chat");
  }
  if (O.TheCommand == Options::Profile)
    Require(!O.Out.empty(), "profile needs --out FILE");
  if (O.TheCommand == Options::Merge) {
    Require(!O.Checkpoint.empty(), "merge needs --checkpoint");
    Require(!O.Out.empty(), "merge needs --out DIR");
  }
  if (O.TheCommand == Options::Export) {
    Require(!O.Checkpoint.empty(), "export needs --checkpoint");
    Require(!O.Out.empty(), "export needs --out FILE");
  }
  if (O.TheCommand == Options::Links)
    Require(!O.Out.empty(), "links needs --out FILE");
  bool Evaluates = O.TheCommand == Options::Evaluate;
  if (O.TheCommand != Options::Train && !Evaluates)
    return;
  Require(!O.Data.empty() || !O.DataIds.empty(),
          Evaluates ? "evaluate needs --data FILE" : "train needs --data FILE");
  Require(O.Data.empty() || O.DataIds.empty(),
          "give --data or --data-ids, not both");
  if (Evaluates) {
    Require(!O.Checkpoint.empty(), "evaluate needs --checkpoint");
    Require(O.ValData.empty(), "evaluate reads all of --data; give no "
                               "--val-data");
    Require(O.Preference.empty(), "evaluate measures the loss of examples; the "
                                  "loss of pairs is that of --val-data in "
                                  "training");
  }
  if (O.isDump() || Evaluates)
    return;
  Require(O.Steps >= 0 || O.Epochs >= 0, "train needs --steps N or --epochs X");
  Require(!O.Out.empty(), "train needs --out RUN");
}

static constexpr std::pair<const char *, Options::Command> Commands[] = {
    {"train", Options::Train},   {"evaluate", Options::Evaluate},
    {"sample", Options::Sample}, {"profile", Options::Profile},
    {"links", Options::Links},   {"doctor", Options::Doctor},
    {"info", Options::Info},     {"merge", Options::Merge},
    {"export", Options::Export}, {"options", Options::ListOptions}};

static Options::Command parseCommand(const std::string &Text) {
  std::string Known;
  for (auto [Name, Command] : Commands) {
    if (Text == Name)
      return Command;
    Known += std::string(Known.empty() ? "" : ", ") + Name;
  }
  fail("unknown command '", Text, "'; there are ", Known);
}

const char *poplar::runtime::getCommandName(Options::Command C) {
  for (auto [Name, Command] : Commands)
    if (C == Command)
      return Name;
  return "help";
}

/// Whether --help of a command lists an option, which is in a group.
static bool isListed(std::string_view Name, std::string_view Group,
                     Options::Command Command) {
  std::string_view List;
  switch (Command) {
  case Options::Sample:
    List = " checkpoint prompt prompt-ids chat tokens temperature top-k top-p "
           "min-p no-cache seed tokenizer data-format init threads config comm "
           "link-delay ranks dump-logits ";
    break;
  case Options::Evaluate:
    List = " data data-format tokenizer data-ids checkpoint init batch seed "
           "threads config comm link-delay ranks ";
    break;
  case Options::Profile:
    List = " out threads loss-scale rank max-batch until-level seconds memory "
           "loaded journal identity config ranks ";
    break;
  case Options::Links:
    List = " out threads config comm link-delay ranks ";
    break;
  case Options::Info:
    List = " batch config ranks ";
    break;
  case Options::Merge:
    List = " checkpoint out init config ";
    break;
  case Options::Export:
    List = " checkpoint out format init tokenizer chat-template config ";
    break;
  default:
    return Group != "Sampling" && Group != "Profiling";
  }
  return List.find(" " + std::string(Name) + " ") != List.npos;
}

std::vector<OptionText>
poplar::runtime::describeOptions(Options::Command Command) {
  Options Defaults;
  std::string Config;
  std::vector<OptionText> Texts;
  const char *Group = nullptr;
  for (const Spec &S : getSpecs(Defaults, Config)) {
    Group = S.Group ? S.Group : Group;
    if (isListed(S.Name, Group, Command))
      Texts.push_back({S.Name, S.Help, Group, S.Placeholder});
  }
  return Texts;
}

/// Their names.
static std::vector<std::string> listNames(Options::Command Command) {
  std::vector<std::string> Names;
  for (OptionText &Option : describeOptions(Command))
    Names.push_back(std::move(Option.Name));
  return Names;
}

Options poplar::runtime::parseOptions(int Argc, const char *const *Argv) {
  Options O;
  std::vector<std::string> Args(Argv + 1, Argv + Argc);
  bool IsHelp = std::any_of(Args.begin(), Args.end(), [](std::string_view Arg) {
    return Arg == "--help" || Arg == "-h";
  });
  if (!Args.empty() && Args[0].compare(0, 1, "-") != 0) {
    O.TheCommand = parseCommand(Args[0]);
    Args.erase(Args.begin());
  }
  if (IsHelp) {
    O.HelpOf = O.TheCommand;
    O.TheCommand = Options::Help;
    return O;
  }
  CommandName = getCommandName(O.TheCommand);
  if (O.TheCommand == Options::Sample)
    Notes = stderr;
  std::string Config;
  std::vector<Spec> Specs = getSpecs(O, Config);
  OptionReader Read(Specs, listNames(O.TheCommand));
  Read.arguments(Args, /*OnlyConfig=*/true);
  if (!Config.empty())
    Read.file(Config);
  // The command line replaces what excludes an option of it, too.
  const std::pair<int64_t *, double *> Excluding[] = {
      {&O.Steps, &O.Epochs},
      {&O.Warmup, &O.WarmupRatio},
      {&O.EvalEvery, &O.EvalRatio},
      {&O.SaveEvery, &O.SaveRatio}};
  std::vector<std::pair<int64_t, double>> Configured;
  for (auto [Count, Part] : Excluding) {
    Configured.emplace_back(*Count, *Part);
    *Count = -1;
    *Part = -1;
  }
  Read.arguments(Args, /*OnlyConfig=*/false);
  for (size_t I = 0; I < std::size(Excluding); ++I) {
    auto [Count, Part] = Excluding[I];
    if (*Count < 0 && *Part < 0)
      std::tie(*Count, *Part) = Configured[I];
  }
  check(O);
  return O;
}

static const char *getKind(const Spec::Target &Where) {
  static constexpr const char *Kinds[] = {"text", "integer", "number", "flag",
                                          "text"};
  return Kinds[Where.index()];
}

static std::string formatValue(const Spec::Target &Where) {
  if (auto *const *String = std::get_if<std::string *>(&Where))
    return (*String)->empty() ? "none" : "'" + **String + "'";
  if (auto *const *List = std::get_if<std::vector<std::string> *>(&Where))
    return (*List)->empty() ? "none" : "'" + join(**List, "', '") + "'";
  if (auto *const *Flag = std::get_if<bool *>(&Where))
    return **Flag ? "true" : "false";
  if (auto *const *Integer = std::get_if<int64_t *>(&Where))
    return **Integer < 0 ? "its default" : std::to_string(**Integer);
  double Value = *std::get<double *>(Where);
  if (Value < 0)
    return "its default";
  // The shortest text that gives the same number again.
  char Text[32];
  return {Text, std::to_chars(Text, Text + sizeof Text, Value).ptr};
}

std::vector<OptionValue> poplar::runtime::getOptionValues(const Options &O) {
  Options Copy = O;
  std::string Config;
  std::vector<OptionValue> Values;
  const char *Group = "";
  for (const Spec &S : getSpecs(Copy, Config)) {
    Group = S.Group ? S.Group : Group;
    Values.push_back({S.Name, formatValue(S.Where), Group, S.Rule});
  }
  return Values;
}

std::string poplar::runtime::listOptions() {
  static constexpr const char *Rules[] = {"same", "contents", "per-rank"};
  Options Defaults;
  std::string Config, Text;
  for (const Spec &S : getSpecs(Defaults, Config))
    Text += std::string(S.Name) + "\t" + getKind(S.Where) + "\t" +
            Rules[static_cast<size_t>(S.Rule)] + "\t" + formatValue(S.Where) +
            "\n";
  return Text;
}

static const char *getUsage(Options::Command Command) {
  switch (Command) {
  case Options::Sample:
    return "Continues a text with a trained run.\n\n"
           "  poplar sample RUN [--prompt TEXT] [options]\n"
           "  train sample --checkpoint RUN [--prompt TEXT] [options]\n\n"
           "Examples:\n"
           "  poplar sample run --prompt 'Once upon' --tokens 300\n"
           "  poplar sample run --chat 'What is a GPU?' --temperature 0\n";
  case Options::Evaluate:
    return "Prints the loss and the perplexity of a trained run on data.\n\n"
           "  poplar evaluate RUN --data FILE [options]\n"
           "  train evaluate --checkpoint RUN --data FILE [options]\n\n"
           "Example:\n"
           "  poplar evaluate run --data book.txt\n";
  case Options::Profile:
    return "Measures how fast one rank of this program trains, without the "
           "others.\n\n"
           "  train profile --out FILE [options]\n\n"
           "poplar profile builds such a program and starts it.\n";
  case Options::Links:
    return "Measures the links between the ranks of this job.\n\n"
           "  poplar cluster links JOB -o FILE\n"
           "  launch.sh links --out FILE [options]\n";
  case Options::Doctor:
    return "Checks on all ranks that this job can run. Options may be those "
           "that it is to train with,\nof which ranks compare the values.\n\n"
           "  poplar doctor JOB\n"
           "  launch.sh doctor [options]\n";
  case Options::Info:
    return "Prints what this program holds in memory, and its parameters.\n\n"
           "  train info [options]\n";
  case Options::Merge:
    return "Adds the adapters of a run to the weights of its model.\n\n"
           "  poplar merge RUN -o DIR\n"
           "  train merge --checkpoint RUN --out DIR [options]\n";
  case Options::Export:
    return "Writes the model of a run as a file of llama.cpp, GGUF.\n\n"
           "  poplar export RUN -o FILE [options]\n"
           "  train export --checkpoint RUN --out FILE [options]\n\n"
           "Example:\n"
           "  poplar export run -o model.gguf --format q8_0\n";
  default:
    return "Trains the model this program was compiled for.\n\n"
           "  train [train] --data FILE --steps N|--epochs X --out RUN "
           "[options]\n"
           "  train evaluate --checkpoint RUN --data FILE [options]\n"
           "  train sample --checkpoint RUN [--prompt TEXT] [options]\n"
           "  train profile --out FILE [options]\n"
           "  train links --out FILE [options]\n"
           "  train doctor [options]\n"
           "  train info [options]\n"
           "  train merge --checkpoint RUN --out DIR [options]\n"
           "  train export --checkpoint RUN --out FILE [options]\n"
           "  train options\n\n"
           "train COMMAND --help lists the options of a command.\n\n"
           "Examples:\n"
           "  train --data book.txt --steps 1000 --out run\n"
           "  train --data book.txt --steps 2000 --out run --resume\n"
           "  train --data 'fineweb_train_*.bin' --val-data fineweb_val_0.bin "
           "\\\n        --steps 20000 --global-batch 512 --schedule wsd --out "
           "run\n"
           "  train sample --checkpoint run --prompt 'Once upon' --tokens "
           "300\n";
  }
}

std::string poplar::runtime::getHelp(Options::Command Command) {
  constexpr size_t Indent = 26, Width = 95;
  std::ostringstream Text;
  Text << getUsage(Command);
  std::string Printed;
  for (const OptionText &Option : describeOptions(Command)) {
    if (Option.Group != Printed)
      Text << '\n' << Option.Group << ":\n";
    Printed = Option.Group;
    std::string Line = "  --" + Option.Name + " " + Option.Placeholder;
    if (Line.size() >= Indent) {
      Text << Line << '\n';
      Line.clear();
    }
    Line.resize(Indent, ' ');
    std::istringstream Words(Option.Help);
    bool IsFirst = true;
    for (std::string Word; Words >> Word; IsFirst = false) {
      if (!IsFirst && Line.size() + 1 + Word.size() > Width) {
        Text << Line << '\n';
        Line.assign(Indent, ' ');
        IsFirst = true;
      }
      Line += (IsFirst ? "" : " ") + Word;
    }
    Text << Line << '\n';
  }
  if (Command == Options::Train)
    Text << "\nAn option that is given twice counts as it is given last, "
            "except for repeatable\nones. The command line overrides "
            "--config.\n";
  return Text.str();
}

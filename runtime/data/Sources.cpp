//===- Sources.cpp - The samples that options name ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Sources.h"
#include "data/Examples.h"
#include "data/Mixture.h"
#include "data/PairSource.h"
#include "job/Fingerprint.h"
#include "job/Job.h"
#include "job/Waiting.h"
#include "support/Error.h"
#include "support/JSON.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <optional>

using namespace poplar::runtime;

std::string DataFile::describe() const {
  if (Tokens)
    return Tokens->describe() + Note + Tokens->note();
  return "'" + Examples->name() + "': JSON, " + std::to_string(size()) +
         (HasPairs ? " pairs, " : " examples, ") +
         std::to_string(Examples->counted()) + " of " +
         std::to_string(Examples->tokens()) + " tokens count" + Note +
         Examples->note();
}

void DataFile::addTo(Fingerprint &Print) const {
  if (Tokens)
    Tokens->addTo(Print);
  else
    Examples->addTo(Print);
}

/// Takes the weight off "FILE=WEIGHT"; 0 if there is none. A file may have such
/// a name, too.
static double takeWeight(std::string &Path) {
  size_t Equals = Path.rfind('=');
  std::error_code Code;
  if (Equals == std::string::npos || std::filesystem::exists(Path, Code))
    return 0;
  double Weight = 0;
  const char *End = Path.data() + Path.size();
  auto [Stop, Result] = std::from_chars(Path.data() + Equals + 1, End, Weight);
  if (Result != std::errc() || Stop != End)
    return 0;
  if (!(Weight > 0) || !std::isfinite(Weight))
    fail("--data '", Path, "': a weight is a number above 0");
  Path.resize(Equals);
  return Weight;
}

/// Fails if a model cannot be trained on pairs.
static void checkPairs(const ModelInfo &Model) {
  if (!Model.packed || Model.seq_len % 2)
    fail("--preference puts the two answers of a pair into the halves of a "
         "sample, for which the model is imported with --packing and an even "
         "--seq-len: twice the length of a sequence");
  json::Value Config = json::parse(Model.config, "the model's config.json");
  const json::Value *Rope = Config.find("rope_parameters");
  if (!Rope || Rope->kind() != json::Value::Object)
    Rope = Config.find("rope_scaling");
  if (!Rope)
    return;
  // These choose frequencies by the length of a sequence, and the import has
  // chosen them by that of a sample.
  std::string Type = Rope->string("rope_type", Rope->string("type", ""));
  int64_t Most = Config.integer("max_position_embeddings", 0);
  if (Type == "longrope" || Type == "su")
    Most =
        Rope->integer("original_max_position_embeddings",
                      Config.integer("original_max_position_embeddings", Most));
  else if (Type != "dynamic")
    return;
  bool IsSame = Type != "dynamic" && Model.seq_len / 2 > Most;
  if (Model.seq_len > Most && !IsSame)
    fail("--preference: rotary embeddings of this model (", Type,
         ") depend on whether a sequence is longer than ", Most,
         " tokens, and a pair of two shorter ones is a sample of ",
         Model.seq_len, "; import the model with at most --seq-len ", Most);
}

static DataFile openFile(const std::string &Path, const Options &O,
                         const ModelInfo &Model, const TextEncoding &Encoding,
                         bool Reports) {
  DataFile File;
  File.HasPairs = !O.Preference.empty();
  if (File.HasPairs)
    checkPairs(Model);
  if (isExamples(Path, O.DataFormat, Encoding)) {
    File.Examples = std::make_unique<ExampleFile>(
        Path, Encoding, Model,
        ExampleRules{O.IgnoredMembers,
                     {O.ChatTemplate, O.ChatDate},
                     File.HasPairs,
                     O.LongExamples == "overlap" ? Model.seq_len : 0,
                     O.Rows},
        Reports);
    return File;
  }
  if (File.HasPairs)
    fail("--data '", Path,
         "' has no examples in JSON, and --preference trains on pairs of "
         "answers in JSON");
  TokenFormat Format;
  if (!parseTokenFormat(O.DataFormat, Format))
    fail("unknown --data-format '", O.DataFormat, "'; there are ",
         listTokenFormats(), ", jsonl");
  File.Tokens = std::make_unique<Corpus>(Path, Format, Model.vocab_size,
                                         Reports, &Encoding);
  return File;
}

/// No window is longer than a sample.
static LongExamples getLongExamples(const Options &O) {
  return O.LongExamples == "split"     ? LongExamples::Split
         : O.LongExamples == "drop"    ? LongExamples::Drop
         : O.LongExamples == "fail"    ? LongExamples::Fail
         : O.LongExamples == "overlap" ? LongExamples::Fail
                                       : LongExamples::Cut;
}

/// The part [Begin, End) of a file, for the purpose `What`. `Note` is told what
/// becomes of examples. With it, a part of which nothing counts is an error.
static std::unique_ptr<SampleSource>
openPart(const DataFile &File, int64_t Begin, int64_t End,
         const ModelInfo &Model, const Options &O, bool Shuffle,
         const char *What, std::string *Note = nullptr) {
  auto Seed = static_cast<uint64_t>(O.Seed);
  if (File.Tokens)
    return std::make_unique<CorpusSource>(*File.Tokens, Begin, End, Model, Seed,
                                          Shuffle, What);
  std::optional<Permutation> Split;
  if (File.IsSplitAtRandom)
    Split.emplace(static_cast<uint64_t>(File.size()),
                  hashCounters(Seed, static_cast<uint64_t>(Stream::Split), 0));
  if (File.HasPairs) {
    auto Source = std::make_unique<PairSource>(
        *File.Examples, Begin, End, Model, Seed, Shuffle,
        Split ? &*Split : nullptr, getLongExamples(O),
        O.Preference == "orpo" ? PairTargets::AnswersAndPrompt
                               : PairTargets::Answers);
    if (Source->size() == 0 && Note)
      fail("'", File.Examples->name(),
           "': no pair fits the two halves of a sample of ", Model.seq_len,
           " tokens; import the model with a larger --seq-len");
    if (Note)
      *Note += Source->describe();
    return Source;
  }
  auto Source = std::make_unique<ExampleSource>(
      *File.Examples, Begin, End, Model, Seed, Shuffle,
      Split ? &*Split : nullptr, getLongExamples(O), O.LeastTokens);
  if (Source->size() == 0 && Note && O.LeastTokens > 0)
    fail("'", File.Examples->name(), "': no example has ", O.LeastTokens,
         " tokens, the least of --least-tokens, of which one counts");
  if (Source->size() == 0 && Note)
    fail("'", File.Examples->name(),
         "': no token counts in the loss, because what counts lies beyond the "
         "sequence length of ",
         Model.seq_len, "; import the model with a larger --seq-len");
  if (Note)
    *Note += Source->describe();
  return Source;
}

/// Leaves out examples that equal an earlier one of any file, and files of
/// which nothing is left.
static void dropEqual(std::vector<DataFile> &Files) {
  std::set<ExampleHash> Seen;
  std::string Emptied;
  std::vector<DataFile> Left;
  for (DataFile &File : Files) {
    if (!File.Examples)
      fail("--drop-equal is for examples in JSON, and --data holds none");
    File.Examples->leaveOutEqual(Seen, File.HasPairs ? 2 : 1);
    if (File.size() == 0)
      Emptied += "\nnote: all examples of '" + File.Examples->name() +
                 "' equal earlier ones, and are left out";
    else
      Left.push_back(std::move(File));
  }
  if (!Left.empty())
    Left.back().Note += Emptied;
  Files = std::move(Left);
}

Sources::Sources(const Options &O, const ModelInfo &Model, bool Reports) {
  if (!O.DataIds.empty()) {
    Train = std::make_unique<RawSource>(O.DataIds, Model);
    return;
  }
  TextEncoding Encoding(O, Model);
  for (std::string Path : O.Data) {
    double Weight = takeWeight(Path);
    Data.push_back(openFile(Path, O, Model, Encoding, Reports));
    Data.back().Weight = Weight;
    if ((Data.front().Weight > 0) != (Weight > 0))
      fail("give a weight with every --data, or with none");
    if (!Data.front().Tokens != !Data.back().Tokens)
      fail("--data '", Path, "' ",
           Data.back().Tokens ? "holds no examples in JSON, and another one "
                                "does"
                              : "holds examples in JSON, and another one does "
                                "not");
  }
  for (const std::string &Path : O.ValData) {
    ValData.push_back(openFile(Path, O, Model, Encoding, Reports));
    if (!Data.front().Tokens && ValData.back().Tokens)
      fail("--data holds examples in JSON, and --val-data does not");
  }
  if (O.DropEqual) {
    dropEqual(Data);
    dropEqual(ValData);
  }
  openTraining(O, Model);
  openValidation(O, Model);
  if (O.Preference == "dpo")
    openAllPairs(O, Model);
}

void Sources::openAllPairs(const Options &O, const ModelInfo &Model) {
  std::vector<std::unique_ptr<SampleSource>> Parts;
  for (const std::vector<DataFile> *Files : {&Data, &ValData})
    for (const DataFile &File : *Files)
      Parts.push_back(openPart(File, 0, File.size(), Model, O,
                               /*Shuffle=*/false, "reference"));
  AllPairs = std::make_unique<JoinedSource>(std::move(Parts));
}

void Sources::openTraining(const Options &O, const ModelInfo &Model) {
  std::vector<std::unique_ptr<SampleSource>> Parts;
  std::vector<double> Weights;
  for (DataFile &File : Data) {
    int64_t Size = File.size();
    File.TrainEnd = Size;
    if (ValData.empty())
      File.TrainEnd -=
          static_cast<int64_t>(O.ValFraction * static_cast<double>(Size));
    if (File.Examples)
      File.TrainEnd = std::max<int64_t>(File.TrainEnd, 1);
    if (File.Tokens && O.ValSplit == "random" && File.TrainEnd < Size)
      fail("--val-split random is for examples in JSON: sequences of a text "
           "that are neighbours have too much in common; leave it out, or give "
           "--val-data");
    File.IsSplitAtRandom =
        File.Examples && O.ValSplit != "end" && File.TrainEnd < Size;
    if (File.IsSplitAtRandom)
      File.Note += ", of which " + std::to_string(Size - File.TrainEnd) +
                   " at random are for validation";
    Parts.push_back(openPart(File, 0, File.TrainEnd, Model, O, /*Shuffle=*/true,
                             "training", &File.Note));
    Weights.push_back(File.Weight > 0
                          ? File.Weight
                          : static_cast<double>(Parts.back()->size()));
  }
  if (Parts.size() == 1) {
    Train = std::move(Parts.front());
    return;
  }
  double Sum = std::accumulate(Weights.begin(), Weights.end(), 0.0);
  for (size_t I = 0; I < Data.size(); ++I) {
    char Share[32];
    std::snprintf(Share, sizeof Share, "%.1f %%", 100 * Weights[I] / Sum);
    Data[I].Note += std::string(", ") + Share + " of the samples";
  }
  Train = std::make_unique<MixedSource>(std::move(Parts), std::move(Weights));
}

void Sources::openValidation(const Options &O, const ModelInfo &Model) {
  std::vector<std::unique_ptr<SampleSource>> Parts;
  for (DataFile &File : ValData)
    Parts.push_back(openPart(File, 0, File.size(), Model, O, /*Shuffle=*/false,
                             "validation", &File.Note));
  for (DataFile &File : Data) {
    int64_t Rest = File.size() - File.TrainEnd;
    if (!ValData.empty() || O.ValFraction == 0)
      continue;
    if (File.Examples && Rest == 0) {
      File.Note += "\nno validation: there are too few examples to hold out "
                   "one (--val-fraction, --val-data)";
      continue;
    }
    if (File.Tokens && Rest < Model.seq_len + 1) {
      File.Note += "\nno validation: the last " + std::to_string(Rest) +
                   " tokens of the data are fewer than one sequence";
      continue;
    }
    auto Part = openPart(File, File.TrainEnd, File.size(), Model, O,
                         /*Shuffle=*/false, "validation");
    if (Part->size() > 0)
      Parts.push_back(std::move(Part));
    else
      File.Note += "\nno validation: no token counts in the " +
                   std::to_string(Rest) + " examples that are held out";
  }
  if (Parts.size() == 1)
    Validation = std::move(Parts.front());
  else if (!Parts.empty())
    Validation = std::make_unique<JoinedSource>(std::move(Parts));
}

std::string Sources::describe() const {
  if (Data.empty())
    return "data " + static_cast<const RawSource &>(*Train).describe() + "\n";
  std::string Text;
  for (const DataFile &File : Data)
    Text += "data " + File.describe() + "\n";
  for (const DataFile &File : ValData)
    Text += std::string("validation ") + (File.Tokens ? "data " : "") +
            File.describe() + "\n";
  return Text;
}

std::vector<std::pair<std::string, std::string>>
poplar::runtime::describeFiles(const Options &O, const Sources &Data,
                               int64_t Compared,
                               const Fingerprint::Report &OnProgress) {
  std::vector<std::pair<std::string, std::string>> Files;
  auto Add = [&](const std::string &Name, const auto &Source,
                 const std::string &More = "") {
    Fingerprint Print(Compared, OnProgress);
    Source.addTo(Print);
    Files.emplace_back(Name, Print.describe() + More);
  };
  auto AddAll = [&](const std::string &Name, const std::vector<DataFile> &All) {
    for (size_t I = 0; I < All.size(); ++I)
      Add(I ? Name + " " + std::to_string(I + 1) : Name, All[I],
          All[I].Weight > 0 ? ", weight " + std::to_string(All[I].Weight) : "");
  };
  AddAll("--data", Data.Data);
  AddAll("--val-data", Data.ValData);
  if (!O.DataIds.empty())
    Add("--data-ids", static_cast<const RawSource &>(*Data.Train));
  return Files;
}

/// Bytes of a file of data that ranks compare, see Fingerprint.
static constexpr int64_t ComparedBytes = int64_t(4) << 30;

void poplar::runtime::agreeOnFiles(Collectives &Group, const Options &O,
                                   const Sources &Data,
                                   const std::string &Latest) {
  Group.setPhase("comparing files", LongPhase);
  Waiting Report("comparing files between ranks");
  std::vector<comm::Claim> Claims;
  for (auto &[Name, What] :
       describeFiles(O, Data, ComparedBytes, [&](int64_t Bytes) {
         Group.progress();
         if (Group.rank() == 0)
           Report.step(Bytes);
       }))
    Claims.push_back({Name, What});
  if (!O.Init.empty())
    Claims.push_back({"--init", describeCheckpoint(O.Init)});
  if (!O.InitAdapter.empty())
    Claims.push_back({"--init-adapter", describeCheckpoint(O.InitAdapter)});
  if (!Latest.empty())
    Claims.push_back({"checkpoint to resume from", describeCheckpoint(Latest)});
  Group.agree(Claims);
  Group.setPhase("starting", LongPhase);
}

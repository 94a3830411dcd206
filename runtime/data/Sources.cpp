//===- Sources.cpp - The samples that options name ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Sources.h"
#include "job/Fingerprint.h"
#include "job/Job.h"
#include "job/Waiting.h"
#include "support/Error.h"

using namespace poplar::runtime;

Sources::Sources(const Options &O, const ModelInfo &Model, bool Reports) {
  if (!O.DataIds.empty()) {
    Train = std::make_unique<RawSource>(O.DataIds, Model);
    return;
  }
  TextEncoding Encoding(O, Model);
  if (isExamples(O.Data, O.DataFormat, Encoding)) {
    openExamples(O, Model, Encoding, Reports);
    return;
  }
  TokenFormat Format;
  if (!parseTokenFormat(O.DataFormat, Format))
    fail("unknown --data-format '", O.DataFormat, "'; there are ",
         listTokenFormats());
  TrainTokens = std::make_unique<Corpus>(O.Data, Format, Model.VocabSize,
                                         Reports, &Encoding);
  uint64_t Seed = static_cast<uint64_t>(O.Seed);
  int64_t Size = TrainTokens->size();
  TrainEnd = Size;
  if (!O.ValData.empty()) {
    ValTokens = std::make_unique<Corpus>(O.ValData, Format, Model.VocabSize,
                                         Reports, &Encoding);
    Validation = std::make_unique<CorpusSource>(
        *ValTokens, 0, ValTokens->size(), Model, Seed, false, "validation");
  } else if (O.ValFraction > 0) {
    TrainEnd =
        Size - static_cast<int64_t>(O.ValFraction * static_cast<double>(Size));
  }
  Train = std::make_unique<CorpusSource>(*TrainTokens, 0, TrainEnd, Model, Seed,
                                         true, "training");
  if (Validation || TrainEnd == Size)
    return;
  if (Size - TrainEnd < Model.SeqLen + 1) {
    Note = "no validation: the last " + std::to_string(Size - TrainEnd) +
           " tokens of the data are fewer than one sequence";
    return;
  }
  Validation = std::make_unique<CorpusSource>(*TrainTokens, TrainEnd, Size,
                                              Model, Seed, false, "validation");
}

void Sources::openExamples(const Options &O, const ModelInfo &Model,
                           const TextEncoding &Encoding, bool Reports) {
  auto Seed = static_cast<uint64_t>(O.Seed);
  auto File = prepareExamples(O.Data, Encoding, Model, Reports);
  int64_t Size = countExamples(*File), TrainCount = Size;
  auto Open = [&](auto From, const std::string &Name, int64_t Begin,
                  int64_t End, bool Shuffle) {
    return std::make_unique<ExampleSource>(From, Name, Begin, End, Model, Seed,
                                           Shuffle);
  };
  if (!O.ValData.empty()) {
    if (!isExamples(O.ValData, O.DataFormat, Encoding))
      fail("--data holds examples in JSON, and --val-data does not");
    auto Other = prepareExamples(O.ValData, Encoding, Model, Reports);
    auto Source = Open(Other, O.ValData, 0, countExamples(*Other), false);
    ValExamples = Source.get();
    Validation = std::move(Source);
  } else {
    TrainCount -=
        static_cast<int64_t>(O.ValFraction * static_cast<double>(Size));
    if (TrainCount < Size && TrainCount > 0)
      Validation = Open(File, O.Data, TrainCount, Size, false);
    TrainCount = std::max<int64_t>(TrainCount, 1);
  }
  auto Source = Open(File, O.Data, 0, TrainCount, true);
  Examples = Source.get();
  Train = std::move(Source);
}

std::string Sources::describe() const {
  std::string Text;
  if (Examples) {
    Text = "data " + Examples->describe() + "\n";
    return ValExamples ? Text + "validation " + ValExamples->describe() + "\n"
                       : Text;
  }
  if (TrainTokens)
    Text = "data " + TrainTokens->describe() + "\n";
  else
    Text = "data " + static_cast<const RawSource &>(*Train).describe() + "\n";
  if (ValTokens)
    Text += "validation data " + ValTokens->describe() + "\n";
  return Note.empty() ? Text : Text + Note + "\n";
}

/// Of each file of data, see Fingerprint.
static constexpr int64_t ComparedBytes = int64_t(4) << 30;

void poplar::runtime::agreeOnFiles(Collectives &Group, const Options &O,
                                   const Sources &Data,
                                   const std::string &Latest) {
  Group.setPhase("comparing files", LongPhase);
  Waiting Report("comparing files between ranks");
  std::vector<comm::Claim> Claims;
  auto Claim = [&](const char *Name, const auto &Source) {
    Fingerprint Print(ComparedBytes, [&](int64_t Bytes) {
      Group.progress();
      if (Group.rank() == 0)
        Report.step(Bytes);
    });
    Source.addTo(Print);
    Claims.push_back({Name, Print.describe()});
  };
  if (Data.Examples)
    Claim("--data", *Data.Examples);
  if (Data.ValExamples)
    Claim("--val-data", *Data.ValExamples);
  if (Data.TrainTokens)
    Claim("--data", *Data.TrainTokens);
  if (Data.ValTokens)
    Claim("--val-data", *Data.ValTokens);
  if (!O.DataIds.empty())
    Claim("--data-ids", static_cast<const RawSource &>(*Data.Train));
  if (!O.Init.empty())
    Claims.push_back({"--init", describeCheckpoint(O.Init)});
  if (!O.InitAdapter.empty())
    Claims.push_back({"--init-adapter", describeCheckpoint(O.InitAdapter)});
  if (!Latest.empty())
    Claims.push_back({"checkpoint to resume from", describeCheckpoint(Latest)});
  Group.agree(Claims);
  Group.setPhase("starting", LongPhase);
}

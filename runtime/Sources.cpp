//===- Sources.cpp - The samples that options name ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Sources.h"
#include "Error.h"
#include "Fingerprint.h"
#include "Job.h"

#include <chrono>
#include <cstdio>

using namespace poplar::runtime;

Sources::Sources(const Options &O, const ModelInfo &Model) {
  if (!O.DataIds.empty()) {
    Train = std::make_unique<RawSource>(O.DataIds, Model);
    return;
  }
  TokenFormat Format;
  if (!parseTokenFormat(O.DataFormat, Format))
    fail("unknown --data-format '", O.DataFormat,
         "'; there are auto, text, nanogpt, llmc, tokens16");
  TrainTokens = std::make_unique<Corpus>(O.Data, Format, Model.VocabSize);
  uint64_t Seed = static_cast<uint64_t>(O.Seed);
  int64_t Size = TrainTokens->size();
  TrainEnd = Size;
  if (!O.ValData.empty()) {
    ValTokens = std::make_unique<Corpus>(O.ValData, Format, Model.VocabSize);
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
    std::printf("no validation: the last %lld tokens of the data are fewer "
                "than one sequence\n",
                static_cast<long long>(Size - TrainEnd));
    return;
  }
  Validation = std::make_unique<CorpusSource>(*TrainTokens, TrainEnd, Size,
                                              Model, Seed, false, "validation");
}

/// Of each file of data, see Fingerprint.
static constexpr int64_t ComparedBytes = int64_t(4) << 30;

namespace {

/// Says every other second how far reading has come, so that nobody takes a
/// slow disk for a hang.
class ReadingReport {
public:
  explicit ReadingReport(Collectives &Group, bool Prints)
      : Group(Group), Prints(Prints) {}

  void operator()(int64_t Bytes) {
    Group.progress();
    Clock::time_point Now = Clock::now();
    if (Prints && Now - Last > std::chrono::seconds(2)) {
      std::printf("comparing files between ranks: %s read\n",
                  formatBytes(Bytes).c_str());
      std::fflush(stdout);
      Last = Now;
    }
  }

private:
  using Clock = std::chrono::steady_clock;
  Collectives &Group;
  bool Prints;
  Clock::time_point Last = Clock::now();
};

} // namespace

void poplar::runtime::agreeOnFiles(Collectives &Group, const Options &O,
                                   const Sources &Data,
                                   const std::string &Latest) {
  Group.setPhase("comparing files", LongPhase);
  ReadingReport Report(Group, Group.rank() == 0);
  std::vector<comm::Claim> Claims;
  auto Claim = [&](const char *Name, const auto &Source) {
    Fingerprint Print(ComparedBytes, [&](int64_t Bytes) { Report(Bytes); });
    Source.addTo(Print);
    Claims.push_back({Name, Print.describe()});
  };
  if (Data.TrainTokens)
    Claim("--data", *Data.TrainTokens);
  if (Data.ValTokens)
    Claim("--val-data", *Data.ValTokens);
  if (!O.DataIds.empty())
    Claim("--data-ids", static_cast<const RawSource &>(*Data.Train));
  if (!O.Init.empty())
    Claims.push_back({"--init", describeCheckpoint(O.Init)});
  if (!Latest.empty())
    Claims.push_back({"checkpoint to resume from", describeCheckpoint(Latest)});
  Group.agree(Claims);
  Group.setPhase("starting", LongPhase);
}

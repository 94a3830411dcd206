//===- Preference.cpp - Losses of pairs of answers ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "training/Preference.h"
#include "program/Collectives.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/MappedFile.h"
#include "support/Random.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace poplar::runtime;

void PairSums::reduce(Collectives *Group) {
  if (!Group)
    return;
  double Values[] = {Loss, TokenLoss, Margin, Accurate};
  int64_t Counts[] = {Pairs, Tokens};
  Group->sum(Values, 4);
  Group->sum(Counts, 2);
  *this = {Values[0], Values[1], Values[2], Values[3], Counts[0], Counts[1]};
}

double PairSums::getLoss() const {
  double Mean = Loss / static_cast<double>(Pairs);
  return Tokens ? Mean + TokenLoss / static_cast<double>(Tokens) : Mean;
}

//===----------------------------------------------------------------------===//
// The reference
//===----------------------------------------------------------------------===//

/// Calls `Take(first pair)` for each batch of a source, loaded.
template <typename Callback>
static void forEachBatch(BatchRunner &Batches, SampleSource &Source,
                         const Share &Part, int64_t GlobalBatch,
                         const Callback &Take) {
  for (int64_t First = 0; First < Source.size(); First += GlobalBatch) {
    Batches.load(Source, First, Part, -1);
    Take(First + Part.Offset);
  }
}

void ReferenceScores::compute(BatchRunner &Batches, SampleSource &Source,
                              const Share &Part, int64_t GlobalBatch,
                              Collectives *Group) {
  auto Count = static_cast<size_t>(Source.size());
  std::vector<double> Scores(2 * Count);
  std::vector<int64_t> Keys(Count);
  forEachBatch(Batches, Source, Part, GlobalBatch, [&](int64_t First) {
    const std::vector<PairScore> &Found = Batches.scorePairs();
    // The last batch goes on at the beginning, where pairs are scored already.
    for (int64_t I = 0; I < Part.Samples; ++I) {
      auto Number = static_cast<size_t>(First + I),
           Own = static_cast<size_t>(I);
      if (Number >= Count || !Batches.countsPairs())
        continue;
      Keys[Number] = static_cast<int64_t>(Batches.pairKeys()[Own]);
      Scores[2 * Number] = Found[Own].Chosen;
      Scores[2 * Number + 1] = Found[Own].Rejected;
    }
    if (Group)
      Group->progress();
  });
  if (Group) {
    Group->sum(Scores.data(), static_cast<int64_t>(Scores.size()));
    Group->sum(Keys.data(), static_cast<int64_t>(Keys.size()));
  }
  for (size_t I = 0; I < Count; ++I) {
    if (!std::isfinite(Scores[2 * I]) || !std::isfinite(Scores[2 * I + 1]))
      fail("the log-probability of pair ", I + 1,
           " by the starting weights is not finite");
    auto Key = static_cast<uint64_t>(Keys[I]);
    if (Numbers.emplace(Key, All.size()).second)
      All.push_back({Key, {Scores[2 * I], Scores[2 * I + 1]}});
  }
}

static constexpr char ReferenceHeader[] = "pair,chosen,rejected\n";

void ReferenceScores::write(const std::string &Path) const {
  std::string Text = ReferenceHeader;
  for (const auto &[Key, Scores] : All) {
    char Line[96];
    std::snprintf(Line, sizeof Line, "%016llx,%.17g,%.17g\n",
                  static_cast<unsigned long long>(Key), Scores.first,
                  Scores.second);
    Text += Line;
  }
  writeFileAtomically(Path, Text);
}

std::string ReferenceScores::load(const std::string &Path) {
  std::error_code Code;
  if (!std::filesystem::exists(Path, Code))
    fail("'", Path,
         "' is missing, which has what the reference of --preference dpo says "
         "of each pair: the run cannot be continued without it");
  return std::string(MappedFile(Path).text());
}

std::string ReferenceScores::describe() const {
  uint64_t Hash = 0;
  for (const auto &[Key, Scores] : All) {
    uint64_t Bits[2];
    std::memcpy(Bits, &Scores.first, sizeof(double));
    std::memcpy(Bits + 1, &Scores.second, sizeof(double));
    Hash = hashCounters(Hash, Key, Bits[0], Bits[1]);
  }
  char Text[64];
  std::snprintf(Text, sizeof Text, "%zu pairs with the hash %016llx",
                All.size(), static_cast<unsigned long long>(Hash));
  return Text;
}

void ReferenceScores::read(const std::string &Text, const std::string &Path,
                           const std::string &Description) {
  std::string_view Rest = Text;
  bool IsRead = Rest.substr(0, sizeof ReferenceHeader - 1) == ReferenceHeader;
  // A number, up to the character behind it.
  auto Read = [&](auto &Number, char Behind, auto... Base) {
    auto [End, Result] = std::from_chars(Rest.data(), Rest.data() + Rest.size(),
                                         Number, Base...);
    auto Size = static_cast<size_t>(End - Rest.data());
    IsRead =
        IsRead && Result == std::errc() && Size < Rest.size() && *End == Behind;
    Rest.remove_prefix(IsRead ? Size + 1 : 0);
  };
  Rest.remove_prefix(IsRead ? sizeof ReferenceHeader - 1 : 0);
  while (IsRead && !Rest.empty()) {
    uint64_t Key = 0;
    std::pair<double, double> Scores;
    Read(Key, ',', 16);
    Read(Scores.first, ',');
    Read(Scores.second, '\n');
    Numbers.emplace(Key, All.size());
    All.push_back({Key, Scores});
  }
  if (!IsRead)
    fail("'", Path, "' is damaged");
  if (describe() != Description)
    fail("'", Path, "' was changed since the run began: it has ", describe(),
         ", and the run had ", Description);
}

void ReferenceScores::require(BatchRunner &Batches, SampleSource &Source,
                              const Share &Part, int64_t GlobalBatch,
                              const std::string &Path) const {
  forEachBatch(Batches, Source, Part, GlobalBatch, [&](int64_t First) {
    for (int64_t I = 0; I < Part.Samples; ++I)
      if (!find(Batches.pairKeys()[static_cast<size_t>(I)]))
        fail("pair ", (First + I) % Source.size() + 1,
             " of the data is not in '", Path,
             "': the reference has scored the pairs with which the run began; "
             "continue with these data, or start another run");
  });
}

const std::pair<double, double> *ReferenceScores::find(uint64_t Key) const {
  auto Found = Numbers.find(Key);
  return Found == Numbers.end() ? nullptr : &All[Found->second].second;
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// log(1 + exp(x)), and its derivative.
static double softplus(double X) {
  return std::max(X, 0.0) + std::log1p(std::exp(-std::abs(X)));
}
static double sigmoid(double X) {
  return X >= 0 ? 1 / (1 + std::exp(-X)) : std::exp(X) / (1 + std::exp(X));
}

/// log(P / (1 - P)) and its derivative by log P, which is below 0. A
/// probability of 1 counts as the largest below it, so that the loss stays
/// finite.
static std::pair<double, double> getLogOdds(double LogP) {
  double Not = -std::expm1(std::min(LogP, -1e-12));
  return {LogP - std::log(Not), 1 / Not};
}

double PreferenceLoss::apply(const PairScore &S,
                             const std::pair<double, double> &Reference,
                             double &Margin, PairGradient &G) const {
  if (IsDPO) {
    Margin =
        Beta * ((S.Chosen - Reference.first) - (S.Rejected - Reference.second));
    G.Chosen = Beta * sigmoid(-Margin);
    G.Rejected = -G.Chosen;
    return softplus(-Margin);
  }
  auto ChosenTokens = static_cast<double>(S.ChosenTokens),
       RejectedTokens = static_cast<double>(S.RejectedTokens);
  double Chosen = S.Chosen / ChosenTokens,
         Rejected = S.Rejected / RejectedTokens;
  Margin = Beta * (Chosen - Rejected);
  auto [ChosenOdds, ByChosen] = getLogOdds(Chosen);
  auto [RejectedOdds, ByRejected] = getLogOdds(Rejected);
  double Ratio = ChosenOdds - RejectedOdds, Slope = Beta * sigmoid(-Ratio);
  G.Chosen = Slope * ByChosen / ChosenTokens;
  G.Rejected = -Slope * ByRejected / RejectedTokens;
  return Beta * softplus(-Ratio);
}

PairSums PreferenceLoss::score(BatchRunner &Batches, int64_t Samples,
                               const ReferenceScores &Reference) {
  const std::vector<PairScore> &Scores = Batches.scorePairs();
  Gradients.assign(Scores.size(), PairGradient());
  PairSums Sums;
  for (size_t I = 0; I < static_cast<size_t>(Samples); ++I) {
    // A stage before the last has no losses.
    if (!Scores[I].ChosenTokens)
      continue;
    std::pair<double, double> OfPair;
    if (IsDPO) {
      const std::pair<double, double> *Found =
          Reference.find(Batches.pairKeys()[I]);
      if (!Found)
        fail("a pair of the data has no reference");
      OfPair = *Found;
    }
    double Margin = 0, Loss = apply(Scores[I], OfPair, Margin, Gradients[I]);
    if (!Batches.countsPairs())
      continue;
    Sums.Loss += Loss;
    Sums.Margin += Margin;
    Sums.Accurate += Margin > 0;
    ++Sums.Pairs;
    if (IsDPO)
      continue;
    Sums.TokenLoss += Scores[I].Loss;
    Sums.Tokens += Scores[I].LossTokens;
  }
  return Sums;
}

void PreferenceLoss::train(BatchRunner &Batches, const PairSums &Sums,
                           double LossScale) {
  for (PairGradient &G : Gradients) {
    G.Chosen /= static_cast<double>(Sums.Pairs);
    G.Rejected /= static_cast<double>(Sums.Pairs);
    if (!IsDPO)
      G.Loss = 1 / static_cast<double>(Sums.Tokens);
  }
  Batches.trainPairs(Gradients, LossScale);
}

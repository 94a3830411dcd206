//===- PairSource.cpp - Samples from pairs of answers ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/PairSource.h"
#include "support/Error.h"
#include "support/Random.h"

#include <algorithm>
#include <numeric>

using namespace poplar::runtime;

PairSource::PairSource(const ExampleFile &File, int64_t Begin, int64_t End,
                       const ModelInfo &Model, uint64_t Seed, bool Shuffle,
                       const Permutation *Split, LongExamples Long,
                       PairTargets Which)
    : File(File), Half(Model.seq_len / 2), Seed(Seed), Shuffle(Shuffle),
      Which(Which) {
  for (int64_t Number = Begin; Number < End; ++Number) {
    int64_t Pair =
        Split ? static_cast<int64_t>((*Split)(static_cast<uint64_t>(Number)))
              : Number;
    int64_t Longest =
                std::max(File.length(2 * Pair), File.length(2 * Pair + 1)),
            Most = Half + (Long == LongExamples::Cut);
    bool IsLong = Longest > Most;
    if (IsLong && Long == LongExamples::Drop) {
      ++Dropped;
      continue;
    }
    if (IsLong && Long != LongExamples::Cut)
      fail("'", File.name(), "': pair ", Pair + 1, " has a sequence of ",
           Longest, " tokens, and half a sample has ", Half,
           "; import the model with a larger --seq-len, or drop such pairs by "
           "--long-examples drop");
    if (!File.hasTargets(2 * Pair, 0, countPlaces(2 * Pair)) ||
        !File.hasTargets(2 * Pair + 1, 0, countPlaces(2 * Pair + 1))) {
      ++LeftOut;
      continue;
    }
    Cut += IsLong;
    Kept.push_back(Pair);
  }
  std::sort(Kept.begin(), Kept.end());
}

/// The last token is a target and takes no place.
int64_t PairSource::countPlaces(int64_t Example) const {
  return std::min(File.length(Example) - 1, Half);
}

int64_t PairSource::find(int64_t Index) const {
  int64_t Slot = Shuffle ? shuffleIndex(Index, size(), Seed) : Index % size();
  return Kept[static_cast<size_t>(Slot)];
}

void PairSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  int64_t Pair = find(Index);
  for (int64_t Number : {2 * Pair, 2 * Pair + 1}) {
    int64_t Used = File.read(Number, 0, countPlaces(Number), Ids, Targets);
    if (Which == PairTargets::AnswersAndPrompt && Number == 2 * Pair)
      for (int64_t I = 0; I + 1 < Used; ++I)
        if (Targets[I] == -1)
          Targets[I] = markPrompt(Ids[I + 1]);
    std::fill(Ids + Used, Ids + Half, 0);
    std::fill(Targets + Used, Targets + Half, -1);
    Ids += Half;
    Targets += Half;
  }
}

void PairSource::readPositions(int64_t Index, int64_t, int32_t *Positions) {
  int64_t Pair = find(Index);
  for (int64_t Number : {2 * Pair, 2 * Pair + 1}) {
    int64_t Used = countPlaces(Number);
    std::iota(Positions, Positions + Used, 0);
    // The rest becomes documents of one token, which cost the least.
    std::fill(Positions + Used, Positions + Half, 0);
    Positions += Half;
  }
}

std::string PairSource::describe() const {
  std::string Text;
  auto Add = [&](int64_t Number, const std::string &What) {
    if (Number)
      Text += ", " + std::to_string(Number) +
              (Number == 1 ? " pair is " : " pairs are ") + What;
  };
  std::string Length = std::to_string(Half + 1) + " tokens";
  Add(Cut, "longer than " + Length + " and cut");
  Add(Dropped, "longer than " + std::to_string(Half) + " tokens and dropped");
  Add(LeftOut, "left out: no token of an answer among the first " + Length);
  return Text;
}

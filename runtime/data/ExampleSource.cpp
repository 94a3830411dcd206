//===- ExampleSource.cpp - Samples from examples --------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/ExampleSource.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <tuple>

using namespace poplar::runtime;

ExampleSource::ExampleSource(const ExampleFile &File, int64_t Begin,
                             int64_t End, const ModelInfo &Model, uint64_t Seed,
                             bool Shuffle, const Permutation *Split,
                             LongExamples Long, int64_t Least)
    : File(File), Model(Model), Least(Least), Seed(Seed), Shuffle(Shuffle) {
  for (int64_t Number = Begin; Number < End; ++Number)
    keep(Split ? static_cast<int64_t>((*Split)(static_cast<uint64_t>(Number)))
               : Number,
         Long);
  std::sort(Kept.begin(), Kept.end(), [](const Part &A, const Part &B) {
    return std::tie(A.Example, A.First) < std::tie(B.Example, B.First);
  });
  if (!Model.packed)
    return;
  std::vector<int32_t> Lengths;
  Lengths.reserve(Kept.size());
  for (const Part &Each : Kept)
    Lengths.push_back(static_cast<int32_t>(Each.Places));
  Packed.emplace(std::move(Lengths), Model.seq_len);
}

/// The cut leaves one target more than the sequence has places. Otherwise, what
/// is longer than the sequence is too long.
void ExampleSource::keep(int64_t Example, LongExamples Long) {
  int64_t Length = File.length(Example), Most = Model.seq_len;
  if (Long == LongExamples::Cut) {
    Cut += Length > Most + 1;
    keepPart(Example, 0, std::min(Length, Most + 1));
    return;
  }
  if (Length <= Most) {
    keepPart(Example, 0, Length);
    return;
  }
  switch (Long) {
  case LongExamples::Split:
    ++Divided;
    for (int64_t First = 0; First < Length; First += Most)
      keepPart(Example, First, std::min(Length - First, Most));
    return;
  case LongExamples::Drop:
    ++Dropped;
    return;
  default:
    fail("'", File.name(), "': example ", Example + 1, " has ", Length,
         " tokens, and the sequence has ", Most,
         "; import the model with a larger --seq-len, or drop such examples by "
         "--long-examples drop");
  }
}

/// The last token is a target and takes no place.
void ExampleSource::keepPart(int64_t Example, int64_t First, int64_t Size) {
  if (Size < Least)
    ++Short;
  else if (File.hasTargets(Example, First, Size - 1))
    Kept.push_back({Example, First, Size - 1});
  else
    ++LeftOut;
}

/// The `Places` of a part or, of a sample that it has for itself, its last
/// token as well, which is followed by nothing.
int64_t ExampleSource::readPart(int64_t Number, int32_t *Ids,
                                int32_t *Targets) const {
  const Part &Each = Kept[static_cast<size_t>(Number)];
  if (Packed || Each.Places == Model.seq_len)
    return File.read(Each.Example, Each.First, Each.Places, Ids, Targets);
  int64_t Used =
      File.read(Each.Example, Each.First, Each.Places + 1, Ids, Targets);
  Targets[Each.Places] = -1;
  return Used;
}

/// Finds, for an endless sequence of samples, which of an epoch it is, in the
/// order of the file or as it is packed.
int64_t ExampleSource::find(int64_t Index) {
  if (!Shuffle)
    return Index % size();
  int64_t Epoch = Index / size();
  if (Packed && Epoch != PackedEpoch) {
    uint64_t Key =
        hashCounters(Seed, static_cast<uint64_t>(Stream::Packing), Epoch);
    Permutation Order(Kept.size(), Key);
    Packed->pack(&Order);
    PackedEpoch = Epoch;
  }
  // There are as many samples, however they are packed.
  return shuffleIndex(Index, size(), Seed);
}

void ExampleSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  int64_t Sample = find(Index), Used = 0;
  if (Packed)
    for (const int64_t *Each = Packed->begin(Sample);
         Each != Packed->end(Sample); ++Each)
      Used += readPart(*Each, Ids + Used, Targets + Used);
  else
    Used = readPart(Sample, Ids, Targets);
  std::fill(Ids + Used, Ids + Model.seq_len, 0);
  std::fill(Targets + Used, Targets + Model.seq_len, PaddingTarget);
}

void ExampleSource::readPositions(int64_t Index, int64_t Length,
                                  int32_t *Positions) {
  int64_t Sample = find(Index), Used = 0;
  for (const int64_t *Each = Packed->begin(Sample); Each != Packed->end(Sample);
       Used += Packed->length(*Each++))
    std::iota(Positions + Used, Positions + Used + Packed->length(*Each), 0);
  // The rest of a sample becomes documents of one token, which cost the least.
  std::fill(Positions + Used, Positions + Length, 0);
}

std::string ExampleSource::describe() const {
  std::string Text;
  auto Count = [](int64_t Number, const char *What = "example") {
    return ", " + std::to_string(Number) + " " + What +
           (Number == 1 ? " is " : "s are ");
  };
  std::string Length = std::to_string(Model.seq_len + 1) + " tokens",
              Most = std::to_string(Model.seq_len) + " tokens";
  if (Cut)
    Text += Count(Cut) + "longer than " + Length + " and cut";
  if (Dropped)
    Text += Count(Dropped) + "longer than " + Most + " and dropped";
  if (Divided)
    Text += Count(Divided) + "longer than " + Most + " and split";
  if (Short)
    Text += Count(Short, Divided ? "part" : "example") + "shorter than " +
            std::to_string(Least) + " tokens and dropped";
  if (LeftOut && Divided)
    Text += Count(LeftOut, "part") + "left out: no target";
  else if (LeftOut)
    Text += Count(LeftOut) + "left out: no target among the first " + Length;
  if (!Packed)
    return Text;
  char Filled[32];
  std::snprintf(Filled, sizeof Filled, "%.1f %%",
                100.0 * static_cast<double>(Packed->filled()) /
                    static_cast<double>(Packed->size() * Model.seq_len));
  return Text + ", packed " + std::to_string(countKept()) + " examples into " +
         std::to_string(Packed->size()) + " samples of " +
         std::to_string(Model.seq_len) + " tokens: " + Filled + " filled";
}

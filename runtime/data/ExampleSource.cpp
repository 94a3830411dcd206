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

using namespace poplar::runtime;

ExampleSource::ExampleSource(const ExampleFile &File, int64_t Begin,
                             int64_t End, const ModelInfo &Model, uint64_t Seed,
                             bool Shuffle, const Permutation *Split,
                             LongExamples Long)
    : File(File), Model(Model), Seed(Seed), Shuffle(Shuffle) {
  for (int64_t Number = Begin; Number < End; ++Number) {
    auto I = Split
                 ? static_cast<int64_t>((*Split)(static_cast<uint64_t>(Number)))
                 : Number;
    // The cut leaves one target more than the sequence has places. Otherwise,
    // an example is as long as the text that is to fit.
    if (Long == LongExamples::Cut)
      Cut += File.length(I) > Model.seq_len + 1;
    else if (File.length(I) > Model.seq_len) {
      if (Long == LongExamples::Fail)
        fail("'", File.name(), "': example ", I + 1, " has ", File.length(I),
             " tokens, and the sequence has ", Model.seq_len,
             "; import the model with a larger --seq-len, or drop such "
             "examples by --long-examples drop");
      ++Dropped;
      continue;
    }
    if (File.hasTargets(I, getPlaces(I)))
      Kept.push_back(I);
  }
  std::sort(Kept.begin(), Kept.end());
  LeftOut = End - Begin - countKept() - Dropped;
  if (!Model.packed)
    return;
  std::vector<int32_t> Lengths;
  Lengths.reserve(Kept.size());
  for (int64_t I : Kept)
    Lengths.push_back(static_cast<int32_t>(getPlaces(I)));
  Packed.emplace(std::move(Lengths), Model.seq_len);
}

/// Places of a sample that others share.
int64_t ExampleSource::getPlaces(int64_t Example) const {
  return std::min(File.length(Example) - 1, Model.seq_len);
}

/// Finds, for an endless sequence of samples, which of an epoch it is, in the
/// order of the file or as it is packed.
int64_t ExampleSource::find(int64_t Index) {
  int64_t Epoch = Index / size(), Slot = Index % size();
  if (!Shuffle)
    return Slot;
  auto Key = [&](Stream Which) {
    return hashCounters(Seed, static_cast<uint64_t>(Which), Epoch);
  };
  if (Packed && Epoch != PackedEpoch) {
    Permutation Order(Kept.size(), Key(Stream::Packing));
    Packed->pack(&Order);
    PackedEpoch = Epoch;
  }
  Permutation Order(static_cast<uint64_t>(size()), Key(Stream::Shuffle));
  return static_cast<int64_t>(Order(static_cast<uint64_t>(Slot)));
}

void ExampleSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  int64_t Sample = find(Index), Used = 0;
  if (Packed)
    for (const int64_t *Each = Packed->begin(Sample);
         Each != Packed->end(Sample); ++Each)
      Used += File.read(getKept(*Each), Packed->length(*Each), Ids + Used,
                        Targets + Used);
  else
    Used = File.read(getKept(Sample), Model.seq_len, Ids, Targets);
  std::fill(Ids + Used, Ids + Model.seq_len, 0);
  std::fill(Targets + Used, Targets + Model.seq_len, -1);
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
  auto Count = [](int64_t Number) {
    return ", " + std::to_string(Number) +
           (Number == 1 ? " example is " : " examples are ");
  };
  std::string Length = std::to_string(Model.seq_len + 1) + " tokens";
  if (Cut)
    Text += Count(Cut) + "longer than " + Length + " and cut";
  if (Dropped)
    Text += Count(Dropped) + "longer than " + std::to_string(Model.seq_len) +
            " tokens and dropped";
  if (LeftOut)
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

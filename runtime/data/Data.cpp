//===- Data.cpp - Samples from a corpus -----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Data.h"
#include "support/Error.h"
#include "support/Random.h"

#include <algorithm>
#include <cstring>
#include <numeric>

using namespace poplar::runtime;

void SampleSource::readPositions(int64_t, int64_t Length, int32_t *Positions) {
  std::iota(Positions, Positions + Length, 0);
}

CorpusSource::CorpusSource(const Corpus &Tokens, int64_t Begin, int64_t End,
                           const ModelInfo &Model, uint64_t Seed, bool Shuffle,
                           const char *What)
    : Tokens(Tokens), Model(Model), Begin(Begin),
      Count((End - Begin - 1) / Model.seq_len), Seed(Seed), Shuffle(Shuffle),
      Buffer(static_cast<size_t>(Model.seq_len + 1)) {
  if (End - Begin < Model.seq_len + 1)
    fail("the ", What, " part of '", Tokens.pattern(), "' has ", End - Begin,
         " tokens, fewer than one sequence of ", Model.seq_len,
         " and its last target; give more text, another --val-fraction, or "
         "import the model with a smaller --seq-len");
}

int64_t CorpusSource::getPosition(int64_t Index) const {
  int64_t Slot = Shuffle ? shuffleIndex(Index, Count, Seed) : Index % Count;
  return Begin + Slot * Model.seq_len;
}

void CorpusSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  Tokens.read(getPosition(Index), Model.seq_len + 1, Buffer.data());
  std::copy_n(Buffer.begin(), Model.seq_len, Ids);
  std::copy_n(Buffer.begin() + 1, Model.seq_len, Targets);
}

RawSource::RawSource(const std::string &Path, const ModelInfo &Model)
    : File(Path), Model(Model), Rows(Model.packed ? 3 : 2),
      Used(Model.vocab_size) {
  size_t SampleBytes =
      static_cast<size_t>(Rows * Model.seq_len) * sizeof(int32_t);
  if (File.size() == 0 || File.size() % SampleBytes != 0)
    fail("'", Path, "' has ", File.size(),
         " bytes, not a positive multiple of the ", SampleBytes,
         " of one sample (", Model.seq_len, " ids",
         Model.packed ? ", targets and positions)" : " and targets)");
  Count = static_cast<int64_t>(File.size() / SampleBytes);
  check();
}

void RawSource::check() {
  auto Length = static_cast<size_t>(Model.seq_len);
  std::vector<int32_t> Ids(Length), Targets(Length), Positions(Length);
  // Every other word of 64 bits is 0 or, of -1, -1. Where the words between are
  // 0, too, the model may have one token.
  bool CanBeWide = true, HasOthers = false;
  for (int64_t Index = 0; Index < Count; ++Index) {
    RawSource::read(Index, Ids.data(), Targets.data());
    if (Model.packed)
      RawSource::readPositions(Index, Model.seq_len, Positions.data());
    for (size_t I = 0; I < Length; ++I) {
      int32_t Id = Ids[I];
      if (Id < 0 || Id >= Model.vocab_size || Targets[I] < PaddingTarget ||
          Targets[I] >= Model.vocab_size)
        fail("'", File.path(), "': sample ", Index, ", position ", I, ": id ",
             Id, " or target ", Targets[I], " is outside the vocabulary of ",
             Model.vocab_size,
             Targets[I] == -100 ? "; a target that is not counted is -1 here, "
                                  "and not -100"
                                : "");
      if (Model.packed && Positions[I] != 0 &&
          (I == 0 || Positions[I] != Positions[I - 1] + 1))
        fail("'", File.path(), "': sample ", Index, ", token ", I,
             ": its position in its document is ", Positions[I],
             ", expected 0 or one more than the position before");
      Used.add(Id);
      Uncounted += Targets[I] < 0;
      CanBeWide &= I % 2 == 0 || (Id == 0 && Targets[I] <= 0);
      HasOthers |= I % 2 == 0 && Id != 0;
    }
  }
  if (CanBeWide && HasOthers && Model.seq_len >= 16)
    fail("'", File.path(),
         "' seems to hold integers of 64 bits: every second one of "
         "32 is 0; save them as int32");
}

std::string RawSource::describe() const {
  return "'" + File.path() + "': i32, " + std::to_string(Count) +
         " samples of " + std::to_string(Model.seq_len) + " ids and targets, " +
         Used.describe() + ", " + std::to_string(Uncounted) +
         " targets are negative and not counted";
}

void RawSource::readRow(int64_t Index, int64_t Row, int32_t *Out) const {
  size_t Bytes = static_cast<size_t>(Model.seq_len) * sizeof(int32_t);
  std::memcpy(Out,
              File.data() +
                  static_cast<size_t>(Index % Count * Rows + Row) * Bytes,
              Bytes);
}

void RawSource::read(int64_t Index, int32_t *Ids, int32_t *Targets) {
  readRow(Index, 0, Ids);
  readRow(Index, 1, Targets);
}

void RawSource::readPositions(int64_t Index, int64_t, int32_t *Positions) {
  readRow(Index, 2, Positions);
}

void poplar::runtime::maskTokens(uint64_t Key, const ModelInfo &Model,
                                 int32_t *Ids, int32_t *Targets) {
  for (int64_t I = 0; I < Model.seq_len; ++I) {
    if (toUniform(hashCounters(Key, I, 0)) >= 0.15 ||
        std::binary_search(Model.SpecialTokens.begin(),
                           Model.SpecialTokens.end(), Ids[I])) {
      Targets[I] = -1;
      continue;
    }
    Targets[I] = Ids[I];
    double Choice = toUniform(hashCounters(Key, I, 1));
    if (Choice < 0.8)
      Ids[I] = static_cast<int32_t>(Model.mask_token);
    else if (Choice < 0.9)
      Ids[I] = static_cast<int32_t>(hashCounters(Key, I, 2) %
                                    static_cast<uint64_t>(Model.vocab_size));
  }
}

int64_t poplar::runtime::countTargets(const int32_t *Targets, int64_t Count) {
  return std::count_if(Targets, Targets + Count,
                       [](int32_t Target) { return Target >= 0; });
}

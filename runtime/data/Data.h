//===- Data.h - Samples from a corpus ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_DATA_H
#define POPLAR_RUNTIME_DATA_H

#include "data/Tokens.h"
#include "program/Executor.h"

#include <memory>

namespace poplar::runtime {

/// The target of a place that no token has, behind those of a sample. It is not
/// counted, as is -1.
constexpr int32_t PaddingTarget = -2;

/// A source of samples: SeqLen ids, and as many targets (negative: not
/// counted).
class SampleSource {
public:
  virtual ~SampleSource() = default;
  /// Number of different samples.
  virtual int64_t size() const = 0;
  /// Sample `Index` of an endless sequence.
  virtual void read(int64_t Index, int32_t *Ids, int32_t *Targets) = 0;
  /// The position of each of its `Length` ids in its document, for programs in
  /// which documents share samples: by default the sample is one.
  virtual void readPositions(int64_t Index, int64_t Length, int32_t *Positions);
  /// Whether ids are still to be corrupted for the masked objective.
  virtual bool needsMasking() const { return true; }
};

/// The part [Begin, End) of a corpus, cut into sequences that do not overlap
/// (but for the last target of one, which is the first id of the next). A
/// pass over all of them is an epoch, each in an order of its own.
class CorpusSource : public SampleSource {
public:
  /// Without `Shuffle` every epoch is in the order of the corpus. `What` names
  /// the part in the error for one that has no whole sequence.
  CorpusSource(const Corpus &Tokens, int64_t Begin, int64_t End,
               const ModelInfo &Model, uint64_t Seed, bool Shuffle,
               const char *What);

  int64_t size() const override { return Count; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override;
  /// The position of sample `Index` in the corpus.
  int64_t getPosition(int64_t Index) const;

private:
  const Corpus &Tokens;
  const ModelInfo &Model;
  int64_t Begin, Count;
  uint64_t Seed;
  bool Shuffle;
  std::vector<int32_t> Buffer;
};

/// Samples given outright, in their order and around again: per sample SeqLen
/// ids, SeqLen targets and, if the program was made for packing, SeqLen
/// positions, raw i32. Targets of -1 are not counted, nor is padding.
class RawSource : public SampleSource {
public:
  RawSource(const std::string &Path, const ModelInfo &Model);

  int64_t size() const override { return Count; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override;
  void readPositions(int64_t Index, int64_t Length,
                     int32_t *Positions) override;
  bool needsMasking() const override { return false; }
  void addTo(Fingerprint &Print) const { Print.add(File); }
  /// Statistics of the file's content.
  std::string describe() const;

private:
  /// The ids, targets or positions of a sample: row 0, 1 or 2.
  void readRow(int64_t Index, int64_t Row, int32_t *Out) const;
  void check();

  MappedFile File;
  const ModelInfo &Model;
  int64_t Rows, Count, Uncounted = 0;
  UsedIds Used;
};

/// BERT's corruption for the masked objective: of the tokens in `Ids` that are
/// not special, 15 % (at random by `Key` and position) become targets, and of
/// those 80 % turn into the mask token, 10 % into a random one, 10 % stay.
void maskTokens(uint64_t Key, const ModelInfo &Model, int32_t *Ids,
                int32_t *Targets);

/// Number of targets that count.
int64_t countTargets(const int32_t *Targets, int64_t Count);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_DATA_H

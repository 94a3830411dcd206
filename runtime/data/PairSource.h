//===- PairSource.h - Samples from pairs of answers -------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A pair of answers is one sample, so that no rank has one of them without the
// other. Each is a document behind its prompt, in its half of the sample:
//
//   prompt, chosen answer, 0 ...   |   prompt, rejected answer, 0 ...
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PAIRSOURCE_H
#define POPLAR_RUNTIME_PAIRSOURCE_H

#include "data/Data.h"
#include "data/ExampleSource.h"

namespace poplar::runtime {

/// The target of a token of the prompt that counts as a language model's does,
/// and not in the answer's log-probability. Its own inverse.
inline int32_t markPrompt(int32_t Target) { return -2 - Target; }

/// Which tokens of a pair are targets.
enum class PairTargets {
  /// Those of the answers.
  Answers,
  /// These, and the prompt of the chosen answer, marked by markPrompt().
  AnswersAndPrompt
};

/// Samples of a file of pairs, see ExampleRules::Pairs. The model was made for
/// packing, with an even sequence length.
class PairSource : public SampleSource {
public:
  /// Pairs [Begin, End) in the order of `Split`, or of the file if it is null.
  /// A sequence that is longer than its half is cut at its end and one more
  /// target, or its pair is dropped, or an error, as `Long` says. A pair of
  /// which an answer has no target left is left out.
  PairSource(const ExampleFile &File, int64_t Begin, int64_t End,
             const ModelInfo &Model, uint64_t Seed, bool Shuffle,
             const Permutation *Split, LongExamples Long, PairTargets Which);

  int64_t size() const override { return static_cast<int64_t>(Kept.size()); }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override;
  void readPositions(int64_t Index, int64_t Length,
                     int32_t *Positions) override;
  bool needsMasking() const override { return false; }
  /// ", 3 pairs are longer than 2 x 512 tokens and cut", or nothing.
  std::string describe() const;

private:
  int64_t find(int64_t Index) const;
  int64_t countPlaces(int64_t Example) const;

  const ExampleFile &File;
  int64_t Half;
  std::vector<int64_t> Kept;
  int64_t Cut = 0, Dropped = 0, LeftOut = 0;
  uint64_t Seed;
  bool Shuffle;
  PairTargets Which;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PAIRSOURCE_H

//===- ExampleSource.h - Samples from examples ------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXAMPLESOURCE_H
#define POPLAR_RUNTIME_EXAMPLESOURCE_H

#include "data/Data.h"
#include "data/ExampleFile.h"
#include "data/Packing.h"

#include <optional>

namespace poplar::runtime {

/// What becomes of examples that are longer than a sample.
enum class LongExamples { Cut, Split, Drop, Fail };

/// A range of the examples of a file, in another order in every epoch if it is
/// shuffled. What is too long is cut, unless it is asked for otherwise, and
/// places that are left do not count.
/// Examples of which the cut leaves nothing that counts are left out.
///
/// If the program was made for packing, several examples share a sample, each
/// whole and with positions of its own. The last token of an example is a
/// target and takes no place. Otherwise every example has a sample.
class ExampleSource : public SampleSource {
public:
  /// Examples [Begin, End) in the order of `Split`, or of the file if it is
  /// null. Examples, or parts of them, with fewer than `Least` tokens are left
  /// out.
  ExampleSource(const ExampleFile &File, int64_t Begin, int64_t End,
                const ModelInfo &Model, uint64_t Seed, bool Shuffle,
                const Permutation *Split = nullptr,
                LongExamples Long = LongExamples::Cut, int64_t Least = 0);

  int64_t size() const override {
    return Packed ? Packed->size() : countKept();
  }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override;
  void readPositions(int64_t Index, int64_t Length,
                     int32_t *Positions) override;
  bool needsMasking() const override { return false; }
  /// ", 3 examples are longer than 1025 tokens and cut, 1 example is left out:
  /// no target among the first 1025 tokens", if any are, and ", packed 5200
  /// examples into 812 samples of 1024 tokens: 97.3 % filled".
  std::string describe() const;

private:
  /// An example, or the tokens of it from `First` on that a sample is to hold.
  struct Part {
    int64_t Example, First, Places;
  };

  /// Keeps the examples, or their parts, of which something counts.
  void keep(int64_t Example, LongExamples Long);
  void keepPart(int64_t Example, int64_t First, int64_t Size);
  int64_t countKept() const { return static_cast<int64_t>(Kept.size()); }
  int64_t readPart(int64_t Number, int32_t *Ids, int32_t *Targets) const;
  int64_t find(int64_t Index);

  const ExampleFile &File;
  const ModelInfo &Model;
  std::vector<Part> Kept;
  int64_t Least, Short = 0;
  int64_t Cut = 0, LeftOut = 0, Dropped = 0, Divided = 0;
  uint64_t Seed;
  bool Shuffle;
  /// As packed for the epoch.
  std::optional<Packing> Packed;
  int64_t PackedEpoch = -1;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXAMPLESOURCE_H

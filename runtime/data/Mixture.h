//===- Mixture.h - Samples from several sources -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_MIXTURE_H
#define POPLAR_RUNTIME_MIXTURE_H

#include "data/Data.h"

namespace poplar::runtime {

/// Several sources as one. A class derived from it decides which sample of
/// which source each of its samples is.
class CombinedSource : public SampleSource {
public:
  int64_t size() const final { return Total; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) final {
    auto [Part, Own] = find(Index);
    Part->read(Own, Ids, Targets);
  }
  void readPositions(int64_t Index, int64_t Length, int32_t *Positions) final {
    auto [Part, Own] = find(Index);
    Part->readPositions(Own, Length, Positions);
  }
  bool needsMasking() const final { return Parts.front()->needsMasking(); }

protected:
  explicit CombinedSource(std::vector<std::unique_ptr<SampleSource>> Parts);

  /// A source, and the number that the sample has in it.
  virtual std::pair<SampleSource *, int64_t> find(int64_t Index) const = 0;

  const std::vector<std::unique_ptr<SampleSource>> Parts;
  int64_t Total = 0;
};

/// Samples from several sources, each in a share of the samples and in an order
/// of its own. Any number of consecutive samples has of each source what its
/// share is, but for a few; which are whose follows from their number alone.
class MixedSource : public CombinedSource {
public:
  /// `Weights`, above 0, are the shares times any number.
  MixedSource(std::vector<std::unique_ptr<SampleSource>> Parts,
              std::vector<double> Weights);

private:
  std::pair<SampleSource *, int64_t> find(int64_t Index) const override;

  /// Shares of the samples that the parts before have left.
  std::vector<double> Shares;
};

/// Several sources, one after the other.
class JoinedSource : public CombinedSource {
public:
  explicit JoinedSource(std::vector<std::unique_ptr<SampleSource>> Parts)
      : CombinedSource(std::move(Parts)) {}

private:
  std::pair<SampleSource *, int64_t> find(int64_t Index) const override;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_MIXTURE_H

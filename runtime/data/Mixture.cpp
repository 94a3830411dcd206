//===- Mixture.cpp - Samples from several sources -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Mixture.h"

#include <cmath>
#include <numeric>

using namespace poplar::runtime;

CombinedSource::CombinedSource(
    std::vector<std::unique_ptr<SampleSource>> TheParts)
    : Parts(std::move(TheParts)) {
  for (const auto &Part : Parts)
    Total += Part->size();
}

MixedSource::MixedSource(std::vector<std::unique_ptr<SampleSource>> Parts,
                         std::vector<double> Weights)
    : CombinedSource(std::move(Parts)) {
  double Rest = std::accumulate(Weights.begin(), Weights.end(), 0.0);
  for (double Weight : Weights) {
    Shares.push_back(Weight / Rest);
    Rest -= Weight;
  }
  Shares.back() = 1;
}

/// A part takes floor(n * share) of the first n samples that earlier parts
/// leave to it, and leaves the others to the parts after it.
std::pair<SampleSource *, int64_t> MixedSource::find(int64_t Index) const {
  for (size_t Part = 0;; ++Part) {
    auto CountOwn = [&](int64_t Count) {
      return static_cast<int64_t>(
          std::floor(static_cast<double>(Count) * Shares[Part]));
    };
    int64_t Own = CountOwn(Index);
    if (CountOwn(Index + 1) > Own || Part + 1 == Parts.size())
      return {Parts[Part].get(), Own};
    Index -= Own;
  }
}

std::pair<SampleSource *, int64_t> JoinedSource::find(int64_t Index) const {
  Index %= Total;
  size_t Part = 0;
  while (Index >= Parts[Part]->size())
    Index -= Parts[Part++]->size();
  return {Parts[Part].get(), Index};
}

//===- Baseline.cpp - A bigram model to compare with ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "data/Baseline.h"
#include "support/Error.h"

#include <algorithm>
#include <cmath>

using namespace poplar::runtime;

double poplar::runtime::getBigramLoss(const Corpus &Training, int64_t End,
                                      SampleSource &Validation, int64_t Samples,
                                      const ModelInfo &Model) {
  if (Model.vocab_size > 4096)
    fail("--bigram-baseline needs a vocabulary of at most 4096 tokens, and "
         "this model's has ",
         Model.vocab_size);
  if (Model.masked)
    fail("--bigram-baseline is for causal models; this one is masked");
  size_t V = static_cast<size_t>(Model.vocab_size);
  std::vector<uint64_t> Pairs(V * V), Firsts(V);
  std::vector<int32_t> Buffer(1 << 16);
  // Consecutive pieces share a token, so that no pair is lost.
  for (int64_t Begin = 0; Begin + 1 < End;
       Begin += static_cast<int64_t>(Buffer.size()) - 1) {
    int64_t Count = std::min(End - Begin, static_cast<int64_t>(Buffer.size()));
    Training.read(Begin, Count, Buffer.data());
    for (size_t I = 0; I + 1 < static_cast<size_t>(Count); ++I) {
      size_t First = static_cast<size_t>(Buffer[I]);
      ++Pairs[First * V + static_cast<size_t>(Buffer[I + 1])];
      ++Firsts[First];
    }
  }
  std::vector<int32_t> Ids(static_cast<size_t>(Model.seq_len)), Targets(Ids);
  double Sum = 0;
  for (int64_t S = 0; S < Samples; ++S) {
    Validation.read(S, Ids.data(), Targets.data());
    for (size_t I = 0; I < Ids.size(); ++I) {
      size_t First = static_cast<size_t>(Ids[I]);
      uint64_t Pair = Pairs[First * V + static_cast<size_t>(Targets[I])];
      Sum -= std::log(static_cast<double>(Pair + 1) /
                      static_cast<double>(Firsts[First] + V));
    }
  }
  return Sum / static_cast<double>(Samples * Model.seq_len);
}

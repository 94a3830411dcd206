//===- Baseline.h - A bigram model to compare with --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_BASELINE_H
#define POPLAR_RUNTIME_BASELINE_H

#include "data/Data.h"

namespace poplar::runtime {

/// Loss per token, on the first `Samples` samples of `Validation`, of a bigram
/// model with add-one smoothing whose counts come from tokens [0, End) of
/// `Training`. The vocabulary may have at most 4096 tokens.
double getBigramLoss(const Corpus &Training, int64_t End,
                     SampleSource &Validation, int64_t Samples,
                     const ModelInfo &Model);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_BASELINE_H

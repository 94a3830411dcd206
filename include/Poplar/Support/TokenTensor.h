//===- TokenTensor.h - Tensors with a row for each token --------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_TOKENTENSOR_H
#define POPLAR_SUPPORT_TOKENTENSOR_H

#include <string>

namespace poplar {

/// A tensor whose first dimension is the vocabulary.
struct TokenTensor {
  /// Its name in the model of text, as in `model.embed_tokens.weight`.
  std::string name;
  /// The standard deviation of its values where training starts from random
  /// ones; 0 if they are zeros.
  double stdDev = 0;
};

} // namespace poplar

#endif // POPLAR_SUPPORT_TOKENTENSOR_H

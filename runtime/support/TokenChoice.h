//===- TokenChoice.h - Which token follows ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENCHOICE_H
#define POPLAR_RUNTIME_TOKENCHOICE_H

#include <cstdint>
#include <vector>

namespace poplar::runtime {

/// The settings for drawing a token: from the tokens that all three limits
/// leave, by the softmax of the logits over the temperature. The likeliest
/// always stays.
struct TokenChoice {
  /// 0 draws the likeliest.
  double Temperature = 0.8;
  /// Keeps so many of the likeliest tokens, and those that equal the last of
  /// them; 0 keeps all.
  int64_t TopK = 0;
  /// Keeps the fewest likeliest tokens whose probabilities add up to this
  /// (nucleus sampling: Holtzman et al., ICLR 2020); 1 keeps all.
  double TopP = 1;
  /// Keeps tokens with at least this part of the likeliest one's probability
  /// (Nguyen et al., ICLR 2025); 0 keeps all.
  double MinP = 0;

  struct Candidate {
    int32_t Id;
    double Probability;
  };
  /// What may be drawn, the likeliest first; of equal logits, the lowest id.
  /// Fails if a logit is NaN or inf, or all are -inf: of such values, none is
  /// the likeliest. A single -inf is never drawn.
  std::vector<Candidate> list(const std::vector<float> &Logits) const;
  /// `Uniform` is in [0, 1).
  int32_t draw(const std::vector<float> &Logits, double Uniform) const;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENCHOICE_H

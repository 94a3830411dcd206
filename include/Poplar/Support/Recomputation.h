//===- Recomputation.h - What a device computes again -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A policy for all of the model ("recompute-unit"), or for its first layers
// alone ("recompute-unit:8"), as Megatron-LM has it (--recompute-method block
// with --recompute-num-layers). The layers are those that come first: what they
// keep lives the longest, and the backward pass of the last ones begins before
// anything that they kept could have been freed.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_RECOMPUTATION_H
#define POPLAR_SUPPORT_RECOMPUTATION_H

#include "Poplar/Support/Words.h"
#include <charconv>
#include <tuple>

namespace poplar {

struct Recomputation {
  RecomputePolicy policy = RecomputePolicy::Keep;
  /// The policy is that of the first so many layers, and the rest of the model
  /// keeps everything; 0 if it is that of the whole model.
  int64_t layers = 0;

  constexpr Recomputation() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a policy is one for all.
  constexpr Recomputation(RecomputePolicy policy, int64_t layers = 0)
      : policy(policy), layers(layers) {}

  constexpr bool isPartial() const { return layers > 0; }

  friend constexpr bool operator==(const Recomputation &a,
                                   const Recomputation &b) {
    return a.policy == b.policy && a.layers == b.layers;
  }
  friend constexpr bool operator!=(const Recomputation &a,
                                   const Recomputation &b) {
    return !(a == b);
  }
  friend constexpr bool operator<(const Recomputation &a,
                                  const Recomputation &b) {
    return std::tie(a.policy, a.layers) < std::tie(b.policy, b.layers);
  }
};

/// "recompute-unit", "recompute-unit:8"
inline std::string toString(const Recomputation &recomputation) {
  std::string text = toString(recomputation.policy);
  if (recomputation.isPartial())
    text += ":" + std::to_string(recomputation.layers);
  return text;
}

/// None if it is neither a word of RecomputePolicy, nor one that recomputes
/// with a number of layers, from 1 on, behind a colon.
inline std::optional<Recomputation> parseRecomputation(std::string_view text) {
  size_t colon = text.find(':');
  std::optional<RecomputePolicy> policy =
      parseWord<RecomputePolicy>(text.substr(0, colon));
  if (!policy || colon == std::string_view::npos)
    return policy ? std::optional<Recomputation>(*policy) : std::nullopt;
  std::string_view digits = text.substr(colon + 1);
  const char *end = digits.data() + digits.size();
  int32_t layers = 0;
  auto [stop, failure] = std::from_chars(digits.data(), end, layers);
  if (failure != std::errc() || stop != end || layers < 1 ||
      digits.front() == '0' || *policy == RecomputePolicy::Keep)
    return std::nullopt;
  return Recomputation(*policy, layers);
}

/// "keep, recompute-attention, recompute-unit, or recompute-attention:N or
/// recompute-unit:N for the first N layers"
inline std::string describeRecomputations() {
  std::string text = joinWords<RecomputePolicy>(), parts;
  for (RecomputePolicy policy : listWords<RecomputePolicy>())
    if (policy != RecomputePolicy::Keep)
      parts += (parts.empty() ? ", or " : " or ") +
               std::string(toString(policy)) + ":N";
  return text + parts + " for the first N layers";
}

} // namespace poplar

#endif // POPLAR_SUPPORT_RECOMPUTATION_H

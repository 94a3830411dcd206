//===- Words.h - Words that are types ---------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a user chooses by a word of a fixed list, such as what is recomputed. It
// is parsed where it enters (cluster files, options, MLIR), written where it
// leaves, and a value of its enum in between, so that no word is misread as
// another. Plain C++, which the planner and the dialects share.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_WORDS_H
#define POPLAR_SUPPORT_WORDS_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace poplar {

/// The words of an enum, `names`, by its values, which are 0, 1, 2 and so on.
template <typename Word> struct Words;

//===----------------------------------------------------------------------===//
// The words
//===----------------------------------------------------------------------===//

/// What a device computes in, and what values are kept in: TF32 is how products
/// round what is f32 in memory.
enum class NumberFormat : uint32_t { F32, BF16, F16, TF32 };
template <> struct Words<NumberFormat> {
  static constexpr const char *names[] = {"f32", "bf16", "f16", "tf32"};
};

/// What ranks send each other; I8 is blocks of int8 (docs/lossy-wires.md).
enum class WireFormat : uint32_t { F32, BF16, F16, I8 };
template <> struct Words<WireFormat> {
  static constexpr const char *names[] = {"f32", "bf16", "f16", "i8"};
};

/// What a backward pass computes again, the one that keeps most first.
enum class RecomputePolicy : uint32_t { Keep, Attention, Unit };
template <> struct Words<RecomputePolicy> {
  static constexpr const char *names[] = {"keep", "recompute-attention",
                                          "recompute-unit"};
};

/// The order in which the groups of a plan take their turns; with Custom, ranks
/// say it themselves.
enum class PlanSchedule : uint32_t {
  GPipe,
  OneForwardOneBackward,
  Interleaved,
  Custom
};
template <> struct Words<PlanSchedule> {
  static constexpr const char *names[] = {"gpipe", "1f1b", "interleaved",
                                          "custom"};
};

//===----------------------------------------------------------------------===//
// To and from text
//===----------------------------------------------------------------------===//

template <typename Word, typename = decltype(Words<Word>::names)>
constexpr const char *toString(Word word) {
  return Words<Word>::names[static_cast<size_t>(word)];
}

/// All of them, in order.
template <typename Word> constexpr auto listWords() {
  std::array<Word, std::size(Words<Word>::names)> words{};
  for (size_t i = 0; i < words.size(); ++i)
    words[i] = static_cast<Word>(i);
  return words;
}

/// None if it is no word of the enum. Nothing but the word itself is one.
template <typename Word>
constexpr std::optional<Word> parseWord(std::string_view text) {
  for (Word word : listWords<Word>())
    if (text == toString(word))
      return word;
  return std::nullopt;
}

/// "keep, recompute-attention, recompute-unit"
template <typename Word>
std::string joinWords(std::string_view separator = ", ") {
  std::string text;
  for (Word word : listWords<Word>()) {
    if (!text.empty())
      text += separator;
    text += toString(word);
  }
  return text;
}

} // namespace poplar

#endif // POPLAR_SUPPORT_WORDS_H

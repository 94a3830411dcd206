//===- CharsMap.h - The character map of a SentencePiece model --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_TOKENIZER_CHARSMAP_H
#define POPLAR_RUNTIME_TOKENIZER_CHARSMAP_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

/// A precompiled map of SentencePiece: a trie of Darts, whose values
/// are positions in a block of strings. A grapheme of up to 5 bytes is replaced
/// by what its shortest known prefix maps to, as `tokenizers` does it; in
/// others, every character is replaced on its own.
class CharsMap {
public:
  CharsMap(std::string_view Data, const std::string &Where);
  void run(std::string_view Text, std::string &Out) const;
  /// Length of the longest prefix of `Text` that the map knows, as
  /// SentencePiece itself applies it, and what that becomes; 0 without one.
  size_t findLongest(std::string_view Text, std::string_view &Result) const;

private:
  /// Calls `Visit(Length, Result)` for each known prefix, the shortest first,
  /// until it returns false.
  template <typename Callback>
  void visitPrefixes(std::string_view Text, const Callback &Visit) const;
  bool find(std::string_view Text, std::string_view &Result) const;

  std::vector<uint32_t> Units;
  std::string Strings;
  /// Whether an ASCII character stays as it is.
  bool Stays[128];
};

/// As the map is written in a tokenizer.json.
std::string decodeBase64(std::string_view Text, const std::string &Where);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_CHARSMAP_H

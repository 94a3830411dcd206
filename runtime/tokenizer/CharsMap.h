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

/// What SentencePiece calls a precompiled map: a trie of Darts, whose values
/// are positions in a block of strings. A grapheme of up to 5 bytes is replaced
/// by what its shortest known prefix maps to, as `tokenizers` does it; in
/// others, every character is replaced on its own.
class CharsMap {
public:
  /// `Base64` is the member of a tokenizer.json.
  CharsMap(const std::string &Base64, const std::string &Where);
  void run(std::string_view Text, std::string &Out) const;

private:
  bool find(std::string_view Text, std::string_view &Result) const;

  std::vector<uint32_t> Units;
  std::string Strings;
  /// Whether an ASCII character stays as it is.
  bool Stays[128];
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_TOKENIZER_CHARSMAP_H

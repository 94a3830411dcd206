//===- SpecialTokens.h - What a tokenizer's files say -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_SPECIALTOKENS_H
#define POPLAR_LIB_IMPORT_SPECIALTOKENS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poplar::import {

/// The tokens that the masked objective treats apart.
struct SpecialTokens {
  /// The one that replaces what is to be predicted.
  std::optional<int64_t> mask;
  /// Those that are never to be predicted, the mask among them; ascending.
  std::vector<int64_t> all;
  /// Where the mask was found.
  std::string source;

  void add(int64_t id);
};

/// What tokenizer.json, tokenizer_config.json, special_tokens_map.json and
/// vocab.txt of a directory say; without a mask if there are none of them, or
/// if they name no mask token. `error` is one line about a damaged file.
SpecialTokens readSpecialTokens(const std::string &directory,
                                std::string &error);

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_SPECIALTOKENS_H

//===- GGUFTokenizer.h - Tokenizers in the words of llama.cpp ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GGUFTOKENIZER_H
#define POPLAR_RUNTIME_GGUFTOKENIZER_H

#include "data/ShippedTemplate.h"
#include "gguf/GGUFFile.h"
#include "tokenizer/Tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace poplar::runtime {

struct GGUFTokenizer {
  const Tokenizer &Tok;
  /// The tokenizer.json or tokenizer.model.
  const std::string &Path;
  const ShippedTemplate &Shipped;
  /// The size of the vocabulary of the model, which may have more tokens.
  int64_t VocabSize;
  /// eos_token_id of config.json, of which there may be several, and other ids
  /// of it; -1 for none.
  std::vector<int64_t> Ends;
  int64_t Begin = -1, Padding = -1;
  /// The chat template in Jinja; empty if none is known.
  std::string ChatTemplate;

  /// Puts the tokenizer into a file. An Error names what llama.cpp has not.
  void describe(GGUFFile &File) const;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GGUFTOKENIZER_H

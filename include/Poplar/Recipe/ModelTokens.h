//===- ModelTokens.h - Other tokens for a model -----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model of the Hugging Face Hub whose tokenizer ends texts by another token,
// or has more tokens, as add_special_tokens and add_tokens of transformers make
// it. Weights stay as they are: the embedding must have rows for all tokens.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RECIPE_MODELTOKENS_H
#define POPLAR_RECIPE_MODELTOKENS_H

#include <string>
#include <vector>

namespace poplar {

struct TokenChanges {
  /// The token that ends texts; empty for the model's own. It is added if the
  /// tokenizer lacks it.
  std::string endToken;
  /// Tokens to add, unless the tokenizer has them.
  std::vector<std::string> added;

  bool isEmpty() const { return endToken.empty() && added.empty(); }
};

/// Whether the tokenizer of a model has a token, by tokenizer.json.
bool hasToken(const std::string &directory, const std::string &token);

/// Why a model cannot be given these tokens, and the remedy; empty if it can.
std::string checkTokens(const std::string &directory,
                        const TokenChanges &changes);

/// Makes a directory with the changed files of the tokenizer, and links to all
/// others. False with the error set if that fails; then `output` may hold some
/// of the files.
bool writeWithTokens(const std::string &directory, const TokenChanges &changes,
                     const std::string &output, std::string &error);

} // namespace poplar

#endif // POPLAR_RECIPE_MODELTOKENS_H

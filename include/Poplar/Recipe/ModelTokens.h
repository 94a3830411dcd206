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
// it. Where the embedding has too few rows, it gets more, as by
// resize_token_embeddings. An embedding that serves as the head, too, can
// become two of equal values, as modules_to_save of PEFT makes a copy of each.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RECIPE_MODELTOKENS_H
#define POPLAR_RECIPE_MODELTOKENS_H

#include "Poplar/Support/TokenTensor.h"
#include <cstdint>
#include <string>
#include <vector>

namespace poplar {

struct TokenChanges {
  /// The token that ends texts; empty for the model's own. It is added if the
  /// tokenizer lacks it.
  std::string endToken;
  /// Tokens to add, unless the tokenizer has them.
  std::vector<std::string> added;
  /// An embedding that has fewer rows than tokens, rounded up to a multiple of
  /// it, gets that many. 0 for no more rows than new tokens need.
  int64_t rowMultiple = 0;
  /// Whether new rows are near the mean of the others, or as random as in a
  /// new model.
  enum Rows { NearMean, Random } rows = NearMean;
  /// What new rows are drawn from.
  uint64_t seed = 1;

  bool isEmpty() const {
    return endToken.empty() && added.empty() && rowMultiple == 0;
  }
};

/// How the weights of a model change.
struct WeightChanges {
  /// The embedding, and what else has a row for each token.
  std::vector<TokenTensor> tensors;
  /// The head, if the embedding serves as it; else it has no name.
  TokenTensor tiedHead;
  /// Whether that head is to be a tensor of its own.
  bool unties = false;
};

/// Whether the tokenizer of a model has a token, by tokenizer.json.
bool hasToken(const std::string &directory, const std::string &token);

/// Why a model cannot be given these tokens, and the remedy; empty if it can.
std::string checkTokens(const std::string &directory,
                        const TokenChanges &changes);

/// The rows that the embedding is to have; 0 if it keeps its own. The tokens
/// must have been checked.
int64_t countNewRows(const std::string &directory, const TokenChanges &changes);

/// Makes a directory with the changed files of the tokenizer, with changed
/// weights if the embedding gets more rows or is untied, and with links to all
/// other files. Weights that do not change keep their bytes. False with the
/// error set if that fails; then `output` may hold some of the files.
bool writeWithTokens(const std::string &directory, const TokenChanges &changes,
                     const WeightChanges &weights, const std::string &output,
                     std::string &error);

} // namespace poplar

#endif // POPLAR_RECIPE_MODELTOKENS_H

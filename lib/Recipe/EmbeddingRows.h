//===- EmbeddingRows.h - Rows for new tokens --------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Example: model.safetensors with model.embed_tokens.weight [100, 8], lm_head
// .weight [100, 8] and others becomes a file in which the two are [104, 8]. All
// bytes of the other tensors, and of the first 100 rows, are the same.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_EMBEDDINGROWS_H
#define POPLAR_LIB_RECIPE_EMBEDDINGROWS_H

#include "Poplar/Recipe/ModelTokens.h"

#include <set>
#include <string>

namespace poplar {

/// What is to become of the tensors with a row for each token.
struct RowRequest {
  const WeightChanges &weights;
  /// Rows that they have, and that they are to have.
  int64_t oldRows, newRows;
  TokenChanges::Rows rows;
  uint64_t seed;
};

/// Writes the files of weights of a model that change to `output`, each as a
/// whole or not at all, and leaves those that are as they would be written.
/// `written` has the names of these files, and of the index if that changes.
/// False with the error set if that fails; nothing is written if the model is
/// the reason.
bool writeWeights(const std::string &directory, const RowRequest &request,
                  const std::string &output, std::set<std::string> &written,
                  std::string &error);

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_EMBEDDINGROWS_H

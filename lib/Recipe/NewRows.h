//===- NewRows.h - Values of rows for new tokens ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two ways of resize_token_embeddings of transformers.
//
//   random:    each element is normal, with mean 0 and a given deviation
//              (mean_resizing=False);
//   near mean: each row is normal, with the mean m of the n old rows r_i and
//              1e-9 of their covariance (mean_resizing=True; Hewitt,
//              "Initializing New Word Embeddings", 2021). With z_i of the
//              standard normal distribution,
//
//                m + sqrt(1e-9 / n) * sum_i z_i (r_i - m)
//
//              has that distribution, and no matrix has to be factored. Where n
//              is not above the columns, the covariance has no full rank, and
//              the row is m. Of a bias, the deviation is 1e-9 of the old one.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_RECIPE_NEWROWS_H
#define POPLAR_LIB_RECIPE_NEWROWS_H

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <string>

namespace poplar {

enum class RowFormat { F32, BF16, F16 };

/// The format that safetensors calls `name`. False if it is none of these.
bool findRowFormat(llvm::StringRef name, RowFormat &format);

/// Bytes of a number.
int64_t getBytes(RowFormat format);

struct NewRows {
  RowFormat format;
  /// Rows that there are, and numbers in each.
  int64_t oldRows, columns;
  /// Rows to draw.
  int64_t count;
  /// What they are drawn from: the same key gives the same rows.
  uint64_t key;
};

/// The bytes of the new rows.
std::string drawRandom(const NewRows &rows, double stdDev);
/// `old` has the bytes of the old rows.
std::string drawNearMean(const NewRows &rows, llvm::StringRef old);

} // namespace poplar

#endif // POPLAR_LIB_RECIPE_NEWROWS_H

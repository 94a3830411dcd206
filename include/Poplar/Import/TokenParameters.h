//===- TokenParameters.h - Parameters with a row for a token ----*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_TOKENPARAMETERS_H
#define POPLAR_IMPORT_TOKENPARAMETERS_H

#include "Poplar/Support/TokenTensor.h"
#include "mlir/IR/MLIRContext.h"
#include <optional>
#include <vector>

namespace poplar {

struct TokenParameters {
  /// The embedding first, then what a head of its own has.
  std::vector<TokenTensor> own;
  /// The weight that the head would have if the embedding did not serve as the
  /// head; no name if the head is one of its own.
  TokenTensor untiedHead;
};

/// Those of the model that a config.json describes: what depends on its
/// vocab_size and its tie_word_embeddings, of any family. `path` is the file or
/// a directory that holds it. Nothing with `error` set if it cannot be
/// imported.
std::optional<TokenParameters> findTokenParameters(llvm::StringRef path,
                                                   mlir::MLIRContext &context,
                                                   std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_TOKENPARAMETERS_H

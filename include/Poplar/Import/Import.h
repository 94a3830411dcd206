//===- Import.h - From config.json to the nn dialect ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_IMPORT_IMPORT_H
#define POPLAR_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>
#include <string>
#include <vector>

namespace poplar {

struct ImportOptions {
  /// Tokens per sample; by default what the model's positions allow, up to
  /// 1024.
  std::optional<int64_t> seqLen;
  /// Replaces every dropout probability of the configuration.
  std::optional<double> dropout;
  /// Alpha of the noise that training adds to embeddings (NEFTune); 0 for none.
  double noiseAlpha = 0;
  /// The coefficient of the loss that balances experts, 0 for none, in place of
  /// what the configuration says.
  std::optional<double> balance;
  /// Whether documents share samples: the model takes the positions of tokens,
  /// and attention does not look across documents.
  bool packing = false;
  /// Keys that are treated as if they were absent, though they may change what
  /// the model computes.
  std::vector<std::string> ignoredKeys;
  /// For the masked objective: the id that replaces tokens, and those that are
  /// never replaced. By default what the tokenizer's files beside the
  /// configuration say, or else the configuration itself.
  std::optional<int64_t> maskTokenId;
  std::vector<int64_t> specialTokenIds;
};

/// What the importer found beside the facts that the module's nn.model holds.
struct ImportSummary {
  /// Positions of the model, which bound or suggest the sequence length.
  int64_t positions = 0;
  /// Where the id of the mask token was found.
  std::string maskSource;
  /// The coefficient of the loss that balances experts; 0 for none.
  double balance = 0;
  /// The architecture whose model of text this is; empty if the model is whole.
  std::string multimodal;
};

/// Builds the model that a Hugging Face config.json describes. `path` is that
/// file or a directory that holds one. On failure the result is null and
/// `error` one line that names the file, the place and what would be accepted.
mlir::OwningOpRef<mlir::ModuleOp> importModel(llvm::StringRef path,
                                              const ImportOptions &options,
                                              mlir::MLIRContext &context,
                                              std::string &error,
                                              ImportSummary *summary = nullptr);

/// The same for the text of a config.json; `name` stands for its file, beside
/// which no tokenizer is looked for if the options have the ids of tokens.
mlir::OwningOpRef<mlir::ModuleOp> importModelText(llvm::StringRef text,
                                                  llvm::StringRef name,
                                                  const ImportOptions &options,
                                                  mlir::MLIRContext &context,
                                                  std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_IMPORT_H

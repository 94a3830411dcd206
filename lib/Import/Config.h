//===- Config.h - What importers ask of a config.json -----------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_IMPORT_CONFIG_H
#define POPLAR_LIB_IMPORT_CONFIG_H

#include "ModelBuilder.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Support/JSON.h"
#include <map>

namespace poplar::import {

/// A config.json with the checks that all architectures share. Getters record
/// an error in the document instead of failing; `failed()` tells.
class Config {
public:
  Config(json::Document &document, const ImportOptions &options,
         mlir::MLIRContext &context, llvm::StringRef file)
      : context(context), file(file), document(document), options(options) {}

  json::Value operator[](const std::string &key) const {
    return document.getRoot()[key];
  }
  bool failed() const { return document.hasError(); }

  /// A dimension: at least 1 and at most 2^31.
  int64_t getSize(const std::string &key) const;
  int64_t getSize(const std::string &key, int64_t fallback) const {
    return (*this)[key].isPresent() ? getSize(key) : fallback;
  }
  /// `pad_token_id`, the row of the word embeddings that look-ups do not train;
  /// none if null, or if absent and `fallback` is none.
  std::optional<int64_t> getPaddingIdx(int64_t vocabSize,
                                       std::optional<int64_t> fallback) const;
  int64_t getLayers(const std::string &key) const;
  /// A dropout probability, unless the options replace it.
  double getDropout(const std::string &key, double fallback) const;
  /// A finite number above zero (an epsilon, a standard deviation, ...).
  double getPositive(const std::string &key, double fallback) const;
  std::string getActivation(const std::string &key,
                            const std::string &fallback) const;
  /// `total` / `parts`, which must divide.
  int64_t divide(const std::string &totalKey, int64_t total,
                 const std::string &partsKey, int64_t parts) const;
  /// A size computed from others, under the same limit.
  void checkSize(const std::string &what, double size) const;

  /// Tokens per sample. `tableRows` is the number of positions; where they are
  /// learned, there are no more.
  int64_t getSeqLen(int64_t tableRows, bool learned) const;

  /// Refuses a key that changes the mathematics unless it is absent, null,
  /// false, or the value given.
  void expectNeutral(const std::string &key) const;
  void expectNeutral(const std::string &key, double neutral) const;
  void expectNeutral(const std::string &key, const std::string &neutral) const;

  /// What the tools need to know of the model.
  struct Summary {
    llvm::StringRef architecture, objective;
    int64_t vocabSize, seqLen, hiddenSize, layers;
  };
  /// Ends the build; null if the model is absurdly large.
  mlir::OwningOpRef<mlir::ModuleOp>
  finish(ModelBuilder &builder, mlir::Value loss, const Summary &summary) const;

  mlir::MLIRContext &context;
  llvm::StringRef file;

private:
  json::Document &document;
  const ImportOptions &options;
};

/// inv_freq of rotary embeddings with `headDim` elements per head, by the
/// configuration's rope_theta and scaling.
std::vector<double> getInverseFrequencies(const Config &config,
                                          int64_t headDim);

/// Importers by the name under `architectures`.
using Importer = mlir::OwningOpRef<mlir::ModuleOp> (*)(const Config &);
const std::map<std::string, Importer> &getImporters();

mlir::OwningOpRef<mlir::ModuleOp> importLlama(const Config &config);
mlir::OwningOpRef<mlir::ModuleOp> importMistral(const Config &config);
mlir::OwningOpRef<mlir::ModuleOp> importQwen2(const Config &config);
mlir::OwningOpRef<mlir::ModuleOp> importGPT2(const Config &config);
mlir::OwningOpRef<mlir::ModuleOp> importBert(const Config &config);

} // namespace poplar::import

#endif // POPLAR_LIB_IMPORT_CONFIG_H

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

namespace poplar {

struct ImportOptions {
  /// Tokens per sample; by default what the model's positions allow, up to
  /// 1024.
  std::optional<int64_t> seqLen;
  /// Replaces every dropout probability of the configuration.
  std::optional<double> dropout;
};

/// Builds the model that a Hugging Face config.json describes. `path` is that
/// file or a directory that holds one. On failure the result is null and
/// `error` one line that names the file, the place and what would be accepted.
mlir::OwningOpRef<mlir::ModuleOp> importModel(llvm::StringRef path,
                                              const ImportOptions &options,
                                              mlir::MLIRContext &context,
                                              std::string &error);

} // namespace poplar

#endif // POPLAR_IMPORT_IMPORT_H

//===- TokenChunks.h - Ops that run for some tokens at a time ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A temporary that takes more bytes a sample than its unit allows
// (nn::kChunkBytesAttr) is never whole in memory. All ops from the one that
// makes it to the last that reads it run for a chunk of tokens, then for the
// next. What only they use has room for one chunk.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_TOKENCHUNKS_H
#define POPLAR_LIB_CONVERSION_MEMORY_TOKENCHUNKS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace poplar {

struct TokenChunks {
  /// In their order.
  llvm::SetVector<mlir::Operation *> ops;
  /// Tokens of a sample, and of each chunk but the last, which may have fewer.
  int64_t tokens = 0, size = 0;

  /// Whether a value is made for a chunk and used in it only.
  bool isInside(mlir::Value value) const;
  /// The type of such a value in a chunk of `count` tokens.
  static mlir::RankedTensorType getTypeInside(mlir::Value value, int64_t count);
};

/// What runs in chunks in a unit. Ops that do not, and whose results are read
/// later only, are moved behind. The rows of a chunk begin at multiples of
/// `alignment` bytes in every buffer.
std::vector<TokenChunks> findTokenChunks(mlir::func::FuncOp unit,
                                         int64_t alignment,
                                         mlir::SymbolTableCollection &symbols);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_TOKENCHUNKS_H

//===- Entries.h - Functions with a role ------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions of a model and of a program by which passes and the runtime
// find their way. Units and kernels have any name.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_ENTRIES_H
#define POPLAR_DIALECT_NN_ENTRIES_H

#include "Poplar/Support/Words.h"
#include "mlir/IR/BuiltinOps.h"

namespace poplar {

namespace nn {
enum class Entry {
  /// The model, forward only.
  Model,
  /// A micro-step, and the last one of an iteration where that differs.
  Train,
  TrainLast,
  /// Forward with the loss; forward to the logits.
  Evaluate,
  Infer,
  /// Forward of a new token, or of a part of a prompt, with caches.
  Decode,
  Prefill,
  /// The optimizer's step.
  Update,
  /// Halves of a micro-step in a pipeline stage.
  Forward,
  Backward,
  BackwardLast,
};
} // namespace nn

/// The symbols of entries.
template <> struct Words<nn::Entry> {
  static constexpr const char *names[] = {
      "model",   "train",  "train_last", "evaluate", "infer",        "decode",
      "prefill", "update", "forward",    "backward", "backward_last"};
};

namespace nn {

/// The symbol of an entry: "train_last".
inline llvm::StringRef getName(Entry entry) { return toString(entry); }

/// The entry of a module, or of a table of its symbols; null if it has none.
template <typename Function>
Function findEntry(mlir::ModuleOp module, Entry entry) {
  return module.lookupSymbol<Function>(getName(entry));
}
template <typename Function>
Function findEntry(const mlir::SymbolTable &symbols, Entry entry) {
  return symbols.lookup<Function>(getName(entry));
}

} // namespace nn
} // namespace poplar

#endif // POPLAR_DIALECT_NN_ENTRIES_H

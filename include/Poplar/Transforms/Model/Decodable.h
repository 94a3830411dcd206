//===- Decodable.h - What can be sampled with caches ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_DECODABLE_H
#define POPLAR_TRANSFORMS_MODEL_DECODABLE_H

#include "Poplar/Dialect/NN/Entries.h"

namespace poplar {

/// An op of an entry, or of a unit that it calls, that has to see
/// whole sequences; null if there is none, and --nn-add-decoding makes its
/// functions.
mlir::Operation *findUndecodable(mlir::ModuleOp module, nn::Entry entry);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_MODEL_DECODABLE_H

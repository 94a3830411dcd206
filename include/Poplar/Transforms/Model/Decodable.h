//===- Decodable.h - What can be sampled with caches ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_MODEL_DECODABLE_H
#define POPLAR_TRANSFORMS_MODEL_DECODABLE_H

#include "mlir/IR/BuiltinOps.h"

namespace poplar {

/// An op of the function `name`, or of a unit that it calls, that has to see
/// whole sequences; null if there is none, and --nn-add-decoding makes its
/// functions.
mlir::Operation *findUndecodable(mlir::ModuleOp module, llvm::StringRef name);

} // namespace poplar

#endif // POPLAR_TRANSFORMS_MODEL_DECODABLE_H

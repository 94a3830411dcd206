//===- ZeroVerifiers.h - What verifiers of zero ops share -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_DIALECT_ZERO_ZEROVERIFIERS_H
#define POPLAR_LIB_DIALECT_ZERO_ZEROVERIFIERS_H

#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar::zero {

/// What is written in a plan is read, or refused. Attributes with the name of a
/// dialect are what passes add.
mlir::LogicalResult verifyAttributes(mlir::Operation *op);

/// `policy` may be null.
mlir::LogicalResult verifyRecompute(mlir::Operation *op,
                                    mlir::StringAttr policy);

} // namespace poplar::zero

#endif // POPLAR_LIB_DIALECT_ZERO_ZEROVERIFIERS_H

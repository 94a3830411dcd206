//===- SliceParameters.h - Parameters of sharers ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#ifndef POPLAR_LIB_TRANSFORMS_SLICEPARAMETERS_H
#define POPLAR_LIB_TRANSFORMS_SLICEPARAMETERS_H

#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar {

/// Divides the parameters of groups whose ranks share units, and the buckets
/// that hold them; says of every bucket which groups use it, at which
/// positions, and in which stage of ZeRO they hold it. Fails with a diagnostic.
llvm::LogicalResult sliceParameters(mlir::ModuleOp module, zero::PlanOp plan);

} // namespace poplar

#endif // POPLAR_LIB_TRANSFORMS_SLICEPARAMETERS_H

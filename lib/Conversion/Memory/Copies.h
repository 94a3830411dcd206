//===- Copies.h - Whole copies of buckets in the fixed region ---*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_CONVERSION_MEMORY_COPIES_H
#define POPLAR_LIB_CONVERSION_MEMORY_COPIES_H

#include "CallBuilder.h"

namespace poplar {

/// Places the whole copies of buckets, from 0 on, and returns their end. Adds
/// an exec.copies for each bucket.
int64_t placeCopies(mlir::ModuleOp module, SharedPlaces &places,
                    mlir::OpBuilder &builder);

} // namespace poplar

#endif // POPLAR_LIB_CONVERSION_MEMORY_COPIES_H

//===- OptimizerStates.h - Moments in blocks --------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model whose nn.model has `state_bits` is trained with moments of large
// parameters in blocks of 8 or 4 bits, see Runtime/Quantized.h. These come
// first in a bucket, each from a multiple of a block on, and no shard ends
// inside of a block.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_OPTIMIZERSTATES_H
#define POPLAR_DIALECT_ZERO_OPTIMIZERSTATES_H

#include "Poplar/Dialect/NN/NN.h"
#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar::zero {

/// Bits of an element of the moments of large parameters: 8, 4, or 0 for f32.
int32_t getStateBits(mlir::ModuleOp module);
/// Whether the moments of a parameter are in blocks. Those of a part of one are
/// not if the part cuts blocks of the whole.
bool hasBlockStates(nn::ParameterOp parameter);

/// Elements of a bucket, from its start on, whose moments are in blocks.
int64_t countBlockStates(BucketOp bucket, mlir::SymbolTableCollection &symbols);

} // namespace poplar::zero

#endif // POPLAR_DIALECT_ZERO_OPTIMIZERSTATES_H

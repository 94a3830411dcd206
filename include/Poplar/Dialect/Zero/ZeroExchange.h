//===- ZeroExchange.h - Exchanges beside products ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZEROEXCHANGE_H
#define POPLAR_DIALECT_ZERO_ZEROEXCHANGE_H

#include "Poplar/Dialect/Zero/Zero.h"

namespace poplar::zero {
class StartExchangeOp;
} // namespace poplar::zero

#define GET_OP_CLASSES
#include "Poplar/Dialect/Zero/ZeroExchangeOps.h.inc"

#endif // POPLAR_DIALECT_ZERO_ZEROEXCHANGE_H

//===- NNGroupOps.h - Groups of columns -------------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNGROUPOPS_H
#define POPLAR_DIALECT_NN_NNGROUPOPS_H

#include "Poplar/Dialect/NN/NN.h"

#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNGroupOps.h.inc"

#endif // POPLAR_DIALECT_NN_NNGROUPOPS_H

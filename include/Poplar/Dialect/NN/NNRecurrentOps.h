//===- NNRecurrentOps.h - Linear attention ----------------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNRECURRENTOPS_H
#define POPLAR_DIALECT_NN_NNRECURRENTOPS_H

#include "Poplar/Dialect/NN/NN.h"

#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNRecurrentOps.h.inc"

#endif // POPLAR_DIALECT_NN_NNRECURRENTOPS_H

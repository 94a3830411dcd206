//===- NN.td - All ops of the nn dialect --------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For the reference.
//
//===----------------------------------------------------------------------===//

include "Poplar/Dialect/NN/NNOps.td"
include "Poplar/Dialect/NN/NNGroupOps.td"
include "Poplar/Dialect/NN/NNRecurrentOps.td"

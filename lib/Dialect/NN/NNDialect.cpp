//===- NNDialect.cpp - The nn dialect -------------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace poplar::nn;

#include "Poplar/Dialect/NN/NNDialect.cpp.inc"
#include "Poplar/Dialect/NN/NNEnums.cpp.inc"
#include "Poplar/Dialect/NN/NNInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "Poplar/Dialect/NN/NNAttrs.cpp.inc"

void NNDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/NN/NNOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Poplar/Dialect/NN/NNAttrs.cpp.inc"
      >();
}

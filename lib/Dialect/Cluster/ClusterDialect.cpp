//===- ClusterDialect.cpp - The cluster dialect ---------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Poplar/Dialect/Cluster/Cluster.h"

using namespace mlir;
using namespace poplar::cluster;

#include "Poplar/Dialect/Cluster/ClusterDialect.cpp.inc"
#include "Poplar/Dialect/Cluster/ClusterEnums.cpp.inc"

void ClusterDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Poplar/Dialect/Cluster/ClusterOps.cpp.inc"
      >();
}

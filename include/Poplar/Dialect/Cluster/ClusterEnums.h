//===- ClusterEnums.h - Formats, policies, kinds of links -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H
#define POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H

#include "Poplar/Support/Words.h"
#include "mlir/IR/BuiltinAttributes.h"

#include "Poplar/Dialect/Cluster/ClusterEnums.h.inc"

#endif // POPLAR_DIALECT_CLUSTER_CLUSTERENUMS_H

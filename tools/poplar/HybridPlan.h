//===- HybridPlan.h - poplar plan --policy hybrid ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TOOLS_HYBRIDPLAN_H
#define POPLAR_TOOLS_HYBRIDPLAN_H

#include "Commands.h"
#include "Compilation.h"
#include "Poplar/Transforms/Passes.h"

struct HybridArguments {
  int64_t globalBatch = 0, bucketBytes = 0;
  /// "auto", or that of all groups.
  std::string stage;
  /// Files to write; empty for none.
  std::string json, trace;
};

/// Plans the model of a compilation, which holds a cluster, and prints the
/// plan. Returns false on failure, with an error said or in `compilation`.
bool planHybrid(Compilation &compilation, const HybridArguments &args);

#endif // POPLAR_TOOLS_HYBRIDPLAN_H

//===- HeteroAllocate.h - Plans of all ranks in one group -------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_ALLOCATION_HETEROALLOCATE_H
#define POPLAR_ALLOCATION_HETEROALLOCATE_H

#include "Poplar/Allocation/Passes.h"
#include "Poplar/Planner/Cluster/Cluster.h"
#include "Poplar/Target/Build.h"

namespace poplar {

/// --hetero-allocate for programs that are scheduled with `overlap`.
std::unique_ptr<mlir::Pass> createHeteroAllocate(HeteroAllocateOptions options,
                                                 const OverlapOptions &overlap);

/// How much faster a plan is at least that loses more.
constexpr double leastLossyGain = 0.01;

/// What plans of a cluster may have collectives round, the least lossy first.
std::vector<LossyWires> listLossyWires(const ClusterView &cluster);

} // namespace poplar

#endif // POPLAR_ALLOCATION_HETEROALLOCATE_H

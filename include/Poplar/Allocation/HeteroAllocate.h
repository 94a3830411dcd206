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
#include "Poplar/Target/Build.h"

namespace poplar {

/// --hetero-allocate for programs that are scheduled with `overlap`.
std::unique_ptr<mlir::Pass> createHeteroAllocate(HeteroAllocateOptions options,
                                                 const OverlapOptions &overlap);

} // namespace poplar

#endif // POPLAR_ALLOCATION_HETEROALLOCATE_H

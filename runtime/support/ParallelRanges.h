//===- ParallelRanges.h - Ranges of a kernel on threads ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_PARALLELRANGES_H
#define POPLAR_RUNTIME_PARALLELRANGES_H

#include "Poplar/Runtime/ABI.h"

namespace poplar::runtime {

/// poplar_rt_dispatch on `Threads` threads.
void dispatchRanges(int Threads, PoplarKernel Kernel, void *const *Args,
                    int64_t Batch, int64_t Extent, int64_t Grain);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_PARALLELRANGES_H

//===- ParallelRanges.cpp - Ranges of a kernel on threads -----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/ParallelRanges.h"

#include <algorithm>
#include <omp.h>

void poplar::runtime::dispatchRanges(int Threads, PoplarKernel Kernel,
                                     void *const *Args, int64_t Batch,
                                     int64_t Extent, int64_t Grain) {
  if (Extent <= 0)
    return;
  Grain = std::max<int64_t>(Grain, 1);
  int64_t Blocks = (Extent - 1) / Grain + 1;
  if (Threads == 1 || Blocks == 1)
    return Kernel(Args, Batch, 0, Extent);
  // A contiguous, static share for each thread: neighbouring kernels then
  // find their operands in the cache of the same core.
#pragma omp parallel num_threads(Threads)
  {
    int64_t Team = omp_get_num_threads(), Id = omp_get_thread_num();
    int64_t Begin = Blocks * Id / Team * Grain;
    int64_t End = std::min(Blocks * (Id + 1) / Team * Grain, Extent);
    if (Begin < End)
      Kernel(Args, Batch, Begin, End);
  }
}

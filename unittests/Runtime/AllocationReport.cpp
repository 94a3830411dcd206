//===- AllocationReport.cpp - Counts a program's allocations --------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With the counter, a library to be loaded by LD_PRELOAD: prints the count of a
// program that was not made for it when the program ends.
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"

#include <cstdio>

namespace {
struct Report {
  ~Report() {
    std::printf("%zu large allocations\n", countLargeAllocations());
    std::fflush(stdout);
  }
} TheReport;
} // namespace

//===- AllocationCounter.h - Counts what the process allocates --*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_UNITTESTS_RUNTIME_ALLOCATIONCOUNTER_H
#define POPLAR_UNITTESTS_RUNTIME_ALLOCATIONCOUNTER_H

#include <cstddef>

/// Allocations since the last reset, by malloc and whatever uses it, of at
/// least `LargeAllocation` bytes.
constexpr size_t LargeAllocation = 4096;
void resetLargeAllocations();
size_t countLargeAllocations();

#endif // POPLAR_UNITTESTS_RUNTIME_ALLOCATIONCOUNTER_H

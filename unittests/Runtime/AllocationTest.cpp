//===- AllocationTest.cpp - No memory is allocated in the loop ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program of its own, because it replaces malloc.
//
//===----------------------------------------------------------------------===//

#include "AllocationCounter.h"
#include "TestProgram.h"
#include "data/Batch.h"
#include "program/Initialization.h"
#include "training/Optimizer.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace poplar::runtime;

namespace {

/// Random samples without a file.
class SyntheticSource : public SampleSource {
public:
  int64_t size() const override { return 1; }
  void read(int64_t Index, int32_t *Ids, int32_t *Targets) override {
    for (int64_t I = 0; I < testprogram::SeqLen; ++I) {
      Ids[I] = static_cast<int32_t>((Index * 31 + I * 7) % 256);
      Targets[I] = static_cast<int32_t>((Index * 31 + I * 7 + 7) % 256);
    }
  }
};

TEST(AllocationTest, CounterCounts) {
  resetLargeAllocations();
  // Volatile, or the compiler leaves the pairs out.
  void *volatile Memory = std::malloc(LargeAllocation);
  std::free(Memory);
  Memory = ::operator new(LargeAllocation);
  ::operator delete(Memory);
  EXPECT_EQ(countLargeAllocations(), 2u);
}

// oneDNN passes the arguments of a primitive in a small map of its own; no
// tensor-sized block may appear.
TEST(AllocationTest, StepsAllocateNothing) {
  Executor Exec(testprogram::Program, {4, 3}, 1);
  BatchRunner Batches(Exec, 7, 1);
  Share Whole{0, 7, 4, 2};
  Optimizer Optim(Exec, {0.9, 0.95, 1e-8, 0.1, 1.0});
  SyntheticSource Source;
  initializeParameters(Exec, 1);
  for (int64_t Step = 0; Step < 10; ++Step) {
    if (Step == 2)
      resetLargeAllocations();
    ASSERT_EQ(Batches.load(Source, Step * 7, Whole, Step), 7 * 16);
    Optim.zeroGradients();
    Batches.train(7 * 16);
    Optim.update(Step, 1e-3);
    Batches.evaluate();
  }
  EXPECT_EQ(countLargeAllocations(), 0u);
}

} // namespace
